//! `plimsoll`: see [`plimsoll::cli`].

fn main() {
    std::process::exit(plimsoll::cli::main());
}
