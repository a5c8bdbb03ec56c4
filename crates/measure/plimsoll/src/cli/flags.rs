//! Messages about fields of an experiment that flags set.

/// Rewrites a message about a field of an experiment so that it names the flag that sets the field.
pub fn as_flag(message: &str) -> String {
    let message = message.split_once("': ").map_or(message, |(_, rest)| rest);
    let mut text = message.replace("rate = \"500/s\"", "--rate 500/s");
    for (field, flag) in [
        ("objects.size", "--size"),
        ("objects.count", "--objects"),
        ("objects.compressible", "--compressible"),
        ("objects.dedup", "--dedup"),
        ("objects.working_set", "--sweep working_set"),
        ("objects.popularity", "--read-order"),
        ("read_after", "--read-after"),
        ("in_flight", "--in-flight"),
        ("stop_after", "--operations"),
    ] {
        text = text.replace(field, flag);
    }
    for flag in ["cache", "concurrency", "rate", "arrival", "duration", "verify", "timeout"] {
        if text.starts_with(flag) {
            text = format!("--{text}");
        }
    }
    text
}
