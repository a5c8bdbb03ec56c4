//! Entry point of the `plimsoll` command; [`crate::cli`] implements it.

fn main() {
    std::process::exit(plimsoll::cli::main());
}
