//! firmware-tools
