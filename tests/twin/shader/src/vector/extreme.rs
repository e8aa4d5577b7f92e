//! Minimum, maximum and median, and which NaN they give: the three families of instructions differ only
//! there.

use super::float::{self, Number};
use super::value::Env;

#[inline(always)]
fn unordered<R: Number>(a: R, b: R) -> bool {
    a.partial_cmp(&b).is_none()
}

#[inline(always)]
fn negative<R: Number>(a: R) -> bool {
    a.bits() & R::FORMAT.sign() != 0
}

/// The lesser one, -0 below 0; not for NaNs.
#[inline(always)]
fn lesser<R: Number>(a: R, b: R) -> R {
    if a < b || a == b && negative(a) { a } else { b }
}

/// The greater one, 0 above -0; not for NaNs.
#[inline(always)]
fn greater<R: Number>(a: R, b: R) -> R {
    if a > b || a == b && !negative(a) {
        a
    } else {
        b
    }
}

fn quieted<R: Number>(a: R) -> R {
    R::of(a.bits() | R::FORMAT.quiet())
}

fn is_nan<R: Number>(a: R) -> bool {
    float::is_nan(R::FORMAT, a.bits())
}

fn is_signaling<R: Number>(a: R) -> bool {
    float::is_signaling(R::FORMAT, a.bits())
}

/// What `v_min` and `v_max` give where an operand is a NaN: the other operand, but a signaling NaN
/// made quiet in IEEE mode.
fn other<E: Env, R: Number>(env: E, a: R, b: R) -> R {
    if env.ieee() && is_signaling(a) {
        quieted(a)
    } else if env.ieee() && is_signaling(b) {
        quieted(b)
    } else if is_nan(b) {
        a
    } else {
        b
    }
}

/// `v_min`.
#[inline(always)]
pub fn min<E: Env, R: Number>(env: E, a: R, b: R) -> R {
    let number = lesser(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        other(env, a, b)
    } else {
        R::NAN
    }
}

/// `v_max`.
#[inline(always)]
pub fn max<E: Env, R: Number>(env: E, a: R, b: R) -> R {
    let number = greater(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        other(env, a, b)
    } else {
        R::NAN
    }
}

/// What `v_min_num` and `v_max_num` give where an operand is a NaN: the other operand, or the first one
/// made quiet.
fn other_num<R: Number>(a: R, b: R) -> R {
    if is_nan(a) && is_nan(b) {
        quieted(a)
    } else if is_nan(a) {
        b
    } else {
        a
    }
}

/// `v_min_num`.
#[inline(always)]
pub fn min_num<E: Env, R: Number>(_: E, a: R, b: R) -> R {
    let number = lesser(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        other_num(a, b)
    } else {
        R::NAN
    }
}

/// `v_max_num`.
#[inline(always)]
pub fn max_num<E: Env, R: Number>(_: E, a: R, b: R) -> R {
    let number = greater(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        other_num(a, b)
    } else {
        R::NAN
    }
}

/// What `v_minimum` and `v_maximum` give where an operand is a NaN: a signaling one first, made quiet.
fn any_nan<R: Number>(a: R, b: R) -> R {
    if is_signaling(a) {
        quieted(a)
    } else if is_signaling(b) {
        quieted(b)
    } else if is_nan(a) {
        a
    } else {
        b
    }
}

/// `v_minimum`.
#[inline(always)]
pub fn minimum<E: Env, R: Number>(_: E, a: R, b: R) -> R {
    let number = lesser(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        any_nan(a, b)
    } else {
        R::NAN
    }
}

/// `v_maximum`.
#[inline(always)]
pub fn maximum<E: Env, R: Number>(_: E, a: R, b: R) -> R {
    let number = greater(a, b);
    if !unordered(a, b) {
        number
    } else if E::EXACT {
        any_nan(a, b)
    } else {
        R::NAN
    }
}

#[inline(always)]
fn middle<R: Number>(a: R, b: R, c: R) -> R {
    let most = greater(greater(a, b), c);
    if most == a {
        greater(b, c)
    } else if most == b {
        greater(a, c)
    } else {
        greater(a, b)
    }
}

/// `v_med3`: the least of three where one is a NaN.
#[inline(always)]
pub fn med3<E: Env, R: Number>(env: E, a: R, b: R, c: R) -> R {
    let number = middle(a, b, c);
    if !unordered(a, b) && !unordered(c, c) {
        number
    } else if E::EXACT {
        min(env, min(env, a, b), c)
    } else {
        R::NAN
    }
}

/// `v_med3_num`.
#[inline(always)]
pub fn med3_num<E: Env, R: Number>(env: E, a: R, b: R, c: R) -> R {
    let number = middle(a, b, c);
    if !unordered(a, b) && !unordered(c, c) {
        number
    } else if E::EXACT {
        min_num(env, min_num(env, a, b), c)
    } else {
        R::NAN
    }
}
