//! hcq
