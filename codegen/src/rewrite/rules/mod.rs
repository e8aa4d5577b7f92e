//! The rules, by theme.

pub mod algebra;
mod ask;
pub mod boolean;
pub mod cast;
pub mod index;
pub mod reduce;
pub mod valid;

use std::sync::LazyLock;

use super::rule::Rules;

/// Every rule.
pub static ALL: LazyLock<Rules> = LazyLock::new(|| {
    Rules::new(&[
        algebra::RULES,
        boolean::RULES,
        cast::RULES,
        index::RULES,
        valid::RULES,
        reduce::EMPTY,
        reduce::RULES,
    ])
});

/// Those that leave every loop of a reduction.
pub static LOOPS: LazyLock<Rules> = LazyLock::new(|| {
    Rules::new(&[
        algebra::RULES,
        boolean::RULES,
        cast::RULES,
        index::RULES,
        valid::RULES,
        reduce::EMPTY,
    ])
});
