"""Names against AWS's documented rules, on random inputs."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))
from plimsoll_infra.names import (  # noqa: E402
    bucket_name, bucket_name_fault, directory_bucket_name, directory_bucket_name_fault, unique_suffix,
)
from plimsoll_infra.zones import express_zone  # noqa: E402

PIECES = ["xn--", "sthree-", "amzn-s3-demo-", "google", "goog", "-", "--", ".", "A", "z", "9", "ü", "日本", " ", ""]


def random_base(draw):
    """Returns a random text: any characters, or pieces that rules are about."""
    if draw.randrange(4) == 0:
        return "".join(chr(draw.randrange(0x20, 0x2FF)) for _ in range(draw.randrange(100)))
    return "".join(draw.choice(PIECES) for _ in range(draw.randrange(30)))


def test_names_of_1000_random_inputs_follow_the_rules():
    draw = random.Random(18)
    for i in range(1_000):
        base = random_base(draw)
        suffix = unique_suffix(base, str(i))
        name = bucket_name(base, suffix)
        assert bucket_name_fault(name) is None, (base, name)
        assert not name.startswith("goog") and "google" not in name
        zone = ["use1-az4", "apne1-az1", "usw2-lax1-az1"][i % 3]
        directory = directory_bucket_name(base, suffix, zone)
        assert directory_bucket_name_fault(directory) is None, (base, directory)
        assert directory.endswith(f"-{suffix}--{zone}--x-s3")


def test_both_languages_have_the_same_suffixes():
    # The value that uniqueSuffix("plimsoll", "dev", "123456789012") returns in TypeScript.
    assert unique_suffix("plimsoll", "dev", "123456789012") == "02c53323"


@pytest.mark.parametrize("bad", ["ab", "a" * 64, "Upper", "-a-b", "a..b", "10.0.0.1", "xn--abc", "abc-s3alias", "a_b"])
def test_invalid_names_are_found(bad):
    assert bucket_name_fault(bad)


@pytest.mark.parametrize("bad", ["data--x-s3", "Data--use1-az4--x-s3", "data--useast1--x-s3", "xn--a--use1-az4--x-s3"])
def test_invalid_directory_bucket_names_are_found(bad):
    assert directory_bucket_name_fault(bad)


def test_the_first_zone_that_offers_express_is_chosen_and_a_wrong_zone_is_refused():
    offered = ["use1-az1", "use1-az2", "use1-az6", "use1-az5"]
    assert express_zone("us-east-1", offered) == "use1-az5"
    assert express_zone("us-east-1", offered, "use1-az1") == "use1-az1"
    with pytest.raises(ValueError, match="use1-az9"):
        express_zone("us-east-1", offered, "use1-az9")
    with pytest.raises(ValueError, match="sa-east-1"):
        express_zone("sa-east-1", ["sae1-az1"])
