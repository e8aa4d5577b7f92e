//! Strings: always on the host, so what is computed from them alone is known.

use std::collections::HashMap;

use codegen::DType;
use regex::Regex;

use crate::graph::Tensor;
use crate::onnx::call::{Call, Table, one};
use crate::onnx::error::{Result, unsupported, wrong};
use crate::onnx::value::{MOST_STRINGS, Strings, Value, check_bytes};
use crate::ops::broadcast_shapes;

pub(super) const OPS: Table = &[
    ("RegexFullMatch", regex_full_match),
    ("StringConcat", concat),
    ("StringNormalizer", normalize),
    ("StringSplit", split),
    ("TfIdfVectorizer", tf_idf),
];

/// A shape, and the two elements at each place of it.
type Pairs<'a> = (Vec<usize>, Vec<(&'a str, &'a str)>);

/// The elements of two arrays of strings side by side, broadcast.
pub(super) fn pairs<'a>(a: &'a Strings, b: &'a Strings) -> Result<Pairs<'a>> {
    let shape = broadcast_shapes("strings", &[&a.shape, &b.shape])?;
    if shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d)) > MOST_STRINGS {
        return wrong(format!(
            "expected at most {MOST_STRINGS} strings, found {shape:?}"
        ));
    }
    let (x, y) = (positions(&a.shape, &shape), positions(&b.shape, &shape));
    let pairs = x.into_iter().zip(y);
    let pairs = pairs.map(|(i, j)| (a.items[i].as_str(), b.items[j].as_str()));
    Ok((shape, pairs.collect()))
}

/// For each element of `to`, the element of `from` that is broadcast to it.
fn positions(from: &[usize], to: &[usize]) -> Vec<usize> {
    let count: usize = to.iter().product();
    let lead = to.len() - from.len();
    (0..count)
        .map(|mut flat| {
            let (mut at, mut step) = (0, 1);
            for axis in (0..to.len()).rev() {
                let i = flat % to[axis];
                flat /= to[axis];
                if axis >= lead {
                    let size = from[axis - lead];
                    if size > 1 {
                        at += i * step;
                    }
                    step *= size;
                }
            }
            at
        })
        .collect()
}

fn concat(c: &mut Call) -> Result<Vec<Value>> {
    let (a, b) = (c.strings(0)?, c.strings(1)?);
    let (shape, pairs) = pairs(a, b)?;
    check_bytes(pairs.iter().map(|(a, b)| a.len() + b.len()))?;
    let items = pairs.iter().map(|(a, b)| format!("{a}{b}")).collect();
    one(Strings { shape, items })
}

fn regex_full_match(c: &mut Call) -> Result<Vec<Value>> {
    let pattern = c.attr_str("pattern")?;
    let pattern = c.needed("pattern", pattern)?;
    let ours = from_re2(pattern);
    // Alone first: with a parenthesis that closes ours it would be another pattern.
    let whole = Regex::new(&ours).and_then(|_| Regex::new(&format!(r"\A(?:{ours})\z")));
    let Ok(whole) = whole else {
        return unsupported(format!(
            "RegexFullMatch with pattern {}",
            crate::io::Quoted::new(pattern)
        ));
    };
    let strings = c.strings(0)?;
    let matches: Vec<bool> = strings.items.iter().map(|s| whole.is_match(s)).collect();
    one(Tensor::from_slice(c.engine(), &matches, &strings.shape)?)
}

/// The same pattern in the syntax of `regex`, which differs from RE2 in that classes know Unicode,
/// and sets may hold sets.
fn from_re2(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut rest = pattern.chars().peekable();
    let mut set = false;
    while let Some(char) = rest.next() {
        match char {
            '\\' => {
                let class = match rest.next() {
                    Some('Q') if !set => {
                        let left: String = rest.by_ref().collect();
                        let (literal, after) = left.split_once(r"\E").unwrap_or((&left, ""));
                        return out + &regex::escape(literal) + &from_re2(after);
                    }
                    Some('d') => "[0-9]",
                    Some('D') => "[^0-9]",
                    Some('w') => "[0-9A-Za-z_]",
                    Some('W') => "[^0-9A-Za-z_]",
                    Some('s') => r"[\t\n\f\r ]",
                    Some('S') => r"[^\t\n\f\r ]",
                    Some('b') if !set => r"(?-u:\b)",
                    Some('B') if !set => r"(?-u:\B)",
                    Some(other) => {
                        out.extend(['\\', other]);
                        continue;
                    }
                    None => r"\",
                };
                out.push_str(class);
            }
            '[' if !set => {
                set = true;
                out.push('[');
                out.extend(rest.next_if_eq(&'^'));
                // A bracket that comes first is one of the set.
                if rest.next_if_eq(&']').is_some() {
                    out.push_str(r"\]");
                }
            }
            '[' if rest.peek() == Some(&':') => {
                // A class like [:alpha:], up to its bracket.
                out.push('[');
                for char in rest.by_ref() {
                    out.push(char);
                    if char == ']' {
                        break;
                    }
                }
            }
            ']' if set => {
                set = false;
                out.push(']');
            }
            '[' | '&' | '~' if set => out.extend(['\\', char]),
            other => out.push(other),
        }
    }
    out
}

/// Removes stop words, then changes the case. What is empty then holds one empty string.
fn normalize(c: &mut Call) -> Result<Vec<Value>> {
    let strings = c.strings(0)?;
    let count = match strings.shape[..] {
        [n] | [1, n] => n,
        _ => {
            return wrong(format!(
                "expected strings [c] or [1, c], found {:?}",
                strings.shape
            ));
        }
    };
    let exact = c.int_or("is_case_sensitive", 0)? != 0;
    let change: fn(&str) -> String = match c.str_or("case_change_action", "NONE")? {
        "NONE" => str::to_string,
        "LOWER" => str::to_lowercase,
        "UPPER" => str::to_uppercase,
        other => return c.bad_word("case_change_action", &["LOWER", "NONE", "UPPER"], other),
    };
    let folded = |s: &str| {
        if exact {
            s.to_string()
        } else {
            s.to_lowercase()
        }
    };
    let stops = c.attr_strs("stopwords")?.unwrap_or_default();
    let stops: std::collections::HashSet<String> = stops.iter().map(|s| folded(s)).collect();
    let kept = strings.items.iter().take(count);
    let kept = kept.filter(|s| stops.is_empty() || !stops.contains(&folded(s)));
    let mut kept: Vec<String> = kept.map(|s| change(s)).collect();
    if kept.is_empty() {
        kept.push(String::new());
    }
    let mut shape = strings.shape.clone();
    if let Some(last) = shape.last_mut() {
        *last = kept.len();
    }
    one(Strings {
        shape,
        items: kept.into(),
    })
}

fn split(c: &mut Call) -> Result<Vec<Value>> {
    let strings = c.strings(0)?;
    let delimiter = c.str_or("delimiter", "")?;
    let most = match c.attr_int("maxsplit")? {
        Some(n) => usize::try_from(n).unwrap_or(usize::MAX),
        None => usize::MAX,
    };
    let parts = |s: &'_ String| -> Vec<String> {
        match delimiter {
            "" => words(s, most),
            _ => s
                .splitn(most.saturating_add(1), delimiter)
                .map(str::to_string)
                .collect(),
        }
    };
    let all: Vec<Vec<String>> = strings.items.iter().map(parts).collect();
    let width = all.iter().map(Vec::len).max().unwrap_or(0);
    if width.saturating_mul(all.len()) > MOST_STRINGS {
        return wrong(format!(
            "expected at most {MOST_STRINGS} parts, found {width} of one of {} strings",
            all.len()
        ));
    }
    let counts: Vec<i64> = all.iter().map(|parts| parts.len() as i64).collect();
    let counts = Tensor::from_slice(c.engine(), &counts, &strings.shape)?;
    let mut shape = strings.shape.clone();
    shape.push(width);
    let padded = all.into_iter().flat_map(|parts| {
        let missing = width - parts.len();
        parts
            .into_iter()
            .chain(std::iter::repeat_n(String::new(), missing))
    });
    let items = padded.collect();
    Ok(vec![Strings { shape, items }.into(), counts.into()])
}

/// Words between white space; after `most` of them, what is left, as it is.
fn words(text: &str, most: usize) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        let end = match found.len() < most {
            true => rest.find(char::is_whitespace).unwrap_or(rest.len()),
            false => rest.len(),
        };
        let (word, after) = rest.split_at(end);
        found.push(word.to_string());
        rest = after.trim_start();
    }
    found
}

/// How often sequences of tokens are in each row. Tokens that are strings become their number in
/// the pool; from there on it is a comparison of numbers.
fn tf_idf(c: &mut Call) -> Result<Vec<Value>> {
    let (pool, tokens) = match (c.attr_strs("pool_strings")?, c.attr_ints("pool_int64s")?) {
        (Some(words), None) => {
            let strings = c.strings(0)?;
            let mut numbers: HashMap<&str, i64> = HashMap::new();
            let mut pool = Vec::with_capacity(words.len());
            for word in words {
                let next = numbers.len() as i64;
                pool.push(*numbers.entry(word).or_insert(next));
            }
            let tokens = strings.items.iter();
            let tokens: Vec<i64> = tokens
                .map(|s| numbers.get(s.as_str()).copied().unwrap_or(-1))
                .collect();
            let tokens = Tensor::from_slice(c.engine(), &tokens, &strings.shape)?;
            (pool, tokens)
        }
        (None, Some(pool)) => (pool, c.tensor(0)?.cast(DType::I64)?),
        _ => return wrong("expected either pool_strings or pool_int64s"),
    };
    if !(1..=2).contains(&tokens.rank()) {
        return wrong(format!(
            "expected tokens [c] or [n, c], found {:?}",
            tokens.shape()
        ));
    }
    let list = |name: &str| -> Result<Vec<usize>> {
        let found = c.attr_ints(name)?;
        crate::onnx::call::sizes(&c.needed(name, found)?)
    };
    let number = |name: &str| -> Result<usize> {
        let found = c.attr_int(name)?;
        let found = c.needed(name, found)?;
        usize::try_from(found).or_else(|_| wrong(format!("expected {name} of at least 0")))
    };
    let (starts, columns) = (list("ngram_counts")?, list("ngram_indexes")?);
    let (least, most) = (number("min_gram_length")?, number("max_gram_length")?);
    let skips = number("max_skip_count")?;
    // The columns of the grams of each length follow each other as the grams do.
    let (mut first, mut used, mut hits) = (0usize, Vec::new(), Vec::new());
    for (i, &start) in starts.iter().enumerate() {
        let length = i + 1;
        let end = starts.get(i + 1).copied().unwrap_or(pool.len());
        let grams = match pool.get(start..end) {
            Some(grams) if grams.len().is_multiple_of(length) => grams,
            _ => {
                return wrong(format!(
                    "expected ngram_counts that cut a pool of {} into grams, found {starts:?}",
                    pool.len()
                ));
            }
        };
        let count = grams.len() / length;
        let Some(mine) = columns.get(first..first + count) else {
            return wrong(format!(
                "expected a number in ngram_indexes for each gram, found {}",
                columns.len()
            ));
        };
        first += count;
        if (least..=most).contains(&length) && count > 0 {
            used.extend_from_slice(mine);
            hits.push(grams_in(&tokens, grams, length, skips)?);
        }
    }
    let width = columns.iter().max().map_or(0, |&m| m.saturating_add(1));
    let rows = &tokens.shape()[..tokens.rank() - 1];
    let shape = [rows, &[width]].concat();
    crate::ops::check_size("TfIdfVectorizer", &shape, DType::F32)?;
    let mut counts = Tensor::zeros(c.engine(), &shape, DType::F32)?;
    if !hits.is_empty() {
        let hits = super::shape::join(&hits, rows.len(), false)?.cast(DType::F32)?;
        let used: Vec<i64> = used.iter().map(|&n| n as i64).collect();
        let used = Tensor::from_slice(c.engine(), &used, &[used.len()])?.expand(hits.shape())?;
        counts = counts.scatter_add(-1, &used, &hits)?;
    }
    let mode = c.str_or("mode", "")?;
    let weighted = match mode {
        "TF" => return one(counts),
        "IDF" => counts.minimum(1)?,
        "TFIDF" => counts,
        other => return c.bad_word("mode", &["IDF", "TF", "TFIDF"], other),
    };
    // The numbers of the weights are those of the columns: what is done, whatever the text of the
    // format can be read to say about pools whose grams are in another order.
    let Some(weights) = c.attr_floats("weights")? else {
        return one(weighted);
    };
    let Some(weights) = weights.get(..width) else {
        return wrong(format!("expected {width} weights, found {}", weights.len()));
    };
    let weights: Vec<f32> = weights.iter().map(|&w| w as f32).collect();
    one(weighted.mul(&Tensor::from_slice(c.engine(), &weights, &[width])?)?)
}

/// How often each gram of a length is in each row, tokens 1 to `skips + 1` apart: `[.., grams]`.
fn grams_in(tokens: &Tensor, grams: &[i64], length: usize, skips: usize) -> Result<Tensor> {
    let engine = tokens.engine();
    let (count, axis) = (grams.len() / length, tokens.rank() - 1);
    let size = tokens.shape()[axis];
    let table = Tensor::from_slice(engine, grams, &[count, length])?;
    let shape = [&tokens.shape()[..axis], &[count]].concat();
    let mut total = Tensor::zeros(engine, &shape, DType::I32)?;
    // A token alone is not apart from anything.
    let skips = if length == 1 { 0 } else { skips };
    for apart in 1..=skips.saturating_add(1) {
        let span = (length - 1).saturating_mul(apart).saturating_add(1);
        let Some(places) = size.checked_sub(span).map(|n| n + 1) else {
            break;
        };
        let mut same: Option<Tensor> = None;
        for k in 0..length {
            let here = tokens.narrow(-1, k * apart, places)?.unsqueeze(-1)?;
            let equal = here.eq(&table.index(1, k as isize)?)?;
            same = Some(match same {
                Some(same) => same.logical_and(&equal)?,
                None => equal,
            });
        }
        if let Some(same) = same {
            let found = same
                .cast(DType::I32)?
                .sum_in(DType::I32, &[axis as isize], false)?;
            total = total.add(&found)?;
        }
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_mean_what_re2_means() {
        let full = |pattern: &str, text: &str| {
            let whole = Regex::new(&format!(r"\A(?:{})\z", from_re2(pattern)));
            whole.is_ok_and(|r| r.is_match(text))
        };
        assert!(full(r"\d+", "12") && !full(r"\d+", "١٢"));
        assert!(full(r"[\w.]+", "a.b") && !full(r"\w", "é"));
        assert!(full(r"[^\d\]]*", "ab") && !full(r"[^\d\]]*", "a]"));
        assert!(full(r"[]a[&&b]+", "][&a") && full(r"[[:alpha:]-]+", "a-b"));
        assert!(full(r"\Qa.b\E+", "a.bb") && !full(r"\Qa.b\E", "axb"));
        assert!(full("a|ab", "ab") && !full("a.b", "a\nb"));
    }

    #[test]
    fn words_are_split_from_the_left() {
        assert_eq!(words("  a  b c ", usize::MAX), ["a", "b", "c"]);
        assert_eq!(words(" a  b  c ", 1), ["a", "b  c "]);
        assert!(words("  ", 3).is_empty());
    }
}
