//! Tests of disks: mounted, and after power losses.
#![cfg(target_os = "linux")]

mod ext4;
mod loss;
mod mount;
mod script;
mod whole_sync;
