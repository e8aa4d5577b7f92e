//! Its tests run scripts: tests/scripts.rs.
