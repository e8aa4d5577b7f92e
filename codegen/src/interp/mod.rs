//! The meaning of the intermediate representation, executed: the judge of every rewrite.

pub mod scalar;
