//! The driver over bare PCI.

#![allow(clippy::unwrap_used)]

mod boot;
mod bundles;
mod card;
mod device;
mod dies;
mod discovery;
mod fork;
mod full;
mod golden;
mod handles;
mod ih;
mod injected;
#[path = "../stand/bundles.rs"]
mod keeping;
mod killed;
mod left;
mod look;
mod mock;
#[path = "../../../host/tests/vfio/model.rs"]
mod model;
mod mutations;
mod pages;
mod several;
#[path = "../stand/mod.rs"]
mod stand;
mod through;
mod twin;
mod vfio;
mod walk;
#[path = "../stand/wrongs.rs"]
mod wrongs;
