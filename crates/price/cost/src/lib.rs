//! The price books of object stores, and bills computed from them. This crate needs no other part of Plimsoll but
//! `plimsoll-base`, so that any program can use it.
//!
//! A price [`book`] contains the prices of providers, with their dates and sources. For one date and one region it
//! yields a [`tariff::Tariff`]. A tariff and a [`usage::Usage`] yield a [`bill::Bill`]. Only [`book::read_prices`]
//! reads files; the rest does no input or output. [`published`] has figures that others published, as data.
//!
//! Amounts are whole picodollars ([`money::Usd`]), and quantities are whole bytes and requests, so a bill is as
//! exact as its prices. A missing price is an error, not zero.

pub mod addition;
pub mod bill;
pub mod bills;
pub mod blend;
pub mod book;
pub mod breakeven;
pub mod charge;
pub mod claims;
pub mod egress;
pub mod egress_assumption;
pub mod functions;
pub mod migrate;
pub mod money;
pub mod of_store;
pub mod period;
pub mod published;
pub mod request;
pub mod tariff;
pub mod tiering;
pub mod usage;
pub mod workload;
