//! Tests of disks: mounted, and after power losses.
#![cfg(target_os = "linux")]
#![allow(clippy::print_stderr, reason = "tests report what they skip")]

mod ext4;
mod loss;
mod mount;
mod script;
mod whole_sync;
