//! The methods of tensors in Python are those of Rust: made from their source, or written by hand and named.
#![allow(clippy::unwrap_used)]

#[path = "../build/methods.rs"]
mod methods;
#[path = "../build/source.rs"]
mod source;

use std::collections::BTreeSet;
use std::path::Path;

fn all() -> Vec<source::Method> {
    source::methods(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../src")).unwrap()
}

#[test]
fn every_public_method_of_tensors_is_in_python() {
    let all = all();
    assert!(all.len() > 180, "{} methods", all.len());
    let unknown: Vec<String> = all.iter().filter_map(methods::unknown).collect();
    assert!(unknown.is_empty(), "{}", unknown.join("\n"));
}

#[test]
fn what_is_named_as_written_by_hand_is_there() {
    let all = all();
    let names: BTreeSet<&str> = all.iter().map(|method| method.name.as_str()).collect();
    for (name, _) in methods::BY_HAND {
        assert!(
            names.contains(name),
            "tensors have no method {name}: take it out of BY_HAND"
        );
    }
}

#[test]
fn methods_have_documentation_signatures_and_stubs() {
    let all = all();
    let (rust, stubs) = methods::written(&all);
    assert!(
        rust.contains("signature = (axis=None, keepdims=false)"),
        "{rust}"
    );
    assert!(rust.contains("fn softmax(&self, py: Python<'_>, axis: isize)"));
    assert!(stubs.contains(
        "def sum(self, axis: _int | Sequence[_int] | None = None, keepdims: _bool = False) -> Tensor:"
    ));
    assert!(stubs.contains("def where(self, a: TensorLike, b: TensorLike) -> Tensor:"));
    assert!(stubs.contains("\"\"\"Hyperbolic tangent."));
    let documented = all.iter().filter(|method| !method.doc.is_empty()).count();
    assert_eq!(documented, all.len());
}
