"""Entry point of the Pulumi program."""

from plimsoll_infra.program import main

main()
