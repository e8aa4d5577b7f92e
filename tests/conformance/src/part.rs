//! Which part of a long test runs.
//!
//! A test of hundreds of cases runs one in so many, which `DOORBELL_PART` chooses: a number, or `all`.
//! `scripts/test` takes another number each time and prints it; without one it is always the same part.
//! Runs with as many numbers in a row as there are parts run everything.

use std::env;

/// The cases that a test runs.
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// Every one.
    All,
    /// Those of this number.
    Number(usize),
}

impl Part {
    /// What `DOORBELL_PART` says; it is printed, for who reads of a failure.
    pub fn chosen() -> Self {
        let text = env::var("DOORBELL_PART").unwrap_or_else(|_| "0".into());
        println!("DOORBELL_PART={text}");
        Self::named(&text)
    }

    fn named(text: &str) -> Self {
        match text.parse() {
            _ if text == "all" => Self::All,
            Ok(number) => Self::Number(number),
            Err(_) => panic!("DOORBELL_PART: expected a number or \"all\", found {text:?}"),
        }
    }

    /// Whether everything runs.
    pub fn is_all(self) -> bool {
        matches!(self, Self::All)
    }

    /// Whether the case of this index runs, where one in `of` does.
    pub fn has(self, index: usize, of: usize) -> bool {
        match self {
            Self::All => true,
            Self::Number(number) => index % of == number % of,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_together_all() {
        for first in [0, 5, 4711] {
            for index in 0..100 {
                let having = |n: &usize| Part::Number(*n).has(index, 4);
                assert_eq!((first..first + 4).filter(having).count(), 1);
            }
        }
        assert!((0..100).all(|index| Part::named("all").has(index, 4)));
        assert!(Part::named("7").has(3, 4) && !Part::named("7").has(4, 4));
        assert!(std::panic::catch_unwind(|| Part::named("some")).is_err());
    }
}
