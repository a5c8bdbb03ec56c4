//! Tests of objects together with the background work that deletes, verifies and lets go of them.

mod bucket_changes;
mod claim;
mod damage;
mod earlier;
mod full_disk;
mod slow_reader;
mod undelete;
