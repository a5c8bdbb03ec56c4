//! Entry point of the `plimsoll` command; [`plimsoll::cli`] implements it.

fn main() {
    std::process::exit(plimsoll::cli::main());
}
