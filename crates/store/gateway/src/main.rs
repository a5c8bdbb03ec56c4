//! The binary `plimsoll-gateway`.

fn main() -> std::process::ExitCode {
    plimsoll_gateway::cli::main()
}
