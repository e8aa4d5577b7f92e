//! Tests that break a rule on purpose.
//!
//! Every rule has one: the test `rules` of `twin-amd` looks for a `fires("NAME")` in the tests of twins,
//! and what that returns fails by itself unless it is compared with the rules that were broken.

use std::panic::Location;
use std::thread;

/// A rule that a test is about to break.
#[track_caller]
pub fn fires(rule: &'static str) -> Fires {
    Fires {
        rule,
        at: Location::caller(),
        seen: false,
    }
}

/// See [`fires`].
#[must_use = "whether the rule was broken has to be looked at"]
pub struct Fires {
    rule: &'static str,
    at: &'static Location<'static>,
    seen: bool,
}

impl Fires {
    /// It is the first that was broken: what comes after may follow from it.
    ///
    /// # Panics
    /// It is not.
    pub fn first(mut self, broken: &[&str]) {
        self.see(broken.first() == Some(&self.rule), "first", broken);
    }

    /// It was broken once, and nothing else.
    ///
    /// # Panics
    /// Other rules were broken, or none.
    pub fn only(mut self, broken: &[&str]) {
        self.see(broken == [self.rule], "only", broken);
    }

    fn see(&mut self, right: bool, how: &str, broken: &[&str]) {
        let (rule, at) = (self.rule, self.at);
        // Whoever panics here has looked, too.
        self.seen = true;
        assert!(right, "{at}: {rule} fires {how}; broken: {broken:?}");
    }
}

impl Drop for Fires {
    fn drop(&mut self) {
        let looked = self.seen || thread::panicking();
        assert!(
            looked,
            "{}: nobody looked whether {} fires",
            self.at, self.rule
        );
    }
}

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use super::*;

    #[test]
    fn whoever_says_that_a_rule_fires_has_to_see_it() {
        Fires::only(fires("TEST-1"), &["TEST-1"]);
        Fires::first(fires("TEST-1"), &["TEST-1", "TEST-2"]);
        let wrong: [fn(Fires); 6] = [
            drop,
            |f| f.only(&[]),
            |f| f.only(&["TEST-1", "TEST-1"]),
            |f| f.only(&["TEST-2"]),
            |f| f.first(&[]),
            |f| f.first(&["TEST-2", "TEST-1"]),
        ];
        for look in wrong {
            assert!(catch_unwind(|| look(fires("TEST-1"))).is_err());
        }
    }
}
