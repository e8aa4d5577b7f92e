//! Every public operator has cases: the list comes from the source of `tensor`, so an operator that
//! is added without a reference fails here.
use std::collections::BTreeSet;
use std::path::Path;

use golden::manifest::References;

/// Operators without a case of their own, each with the reason.
const EXEMPT: &[(&str, &str)] = &[
    (
        "full_bits",
        "`full` with the bits already made; every `full` case goes through it",
    ),
    ("full_like", "`full` with the shape and type of a tensor"),
    ("zeros_like", "`zeros` with the shape and type of a tensor"),
    ("ones_like", "`ones` with the shape and type of a tensor"),
    ("scalar", "`full` without axes"),
    ("from_slice", "how tests make tensors"),
    ("from_bytes", "how every case gets its inputs"),
    (
        "from_source",
        "how weights come from a file, as `from_bytes`",
    ),
    (
        "det",
        "compared with sums over permutations in tensor/tests/values.rs, and with the ONNX cases",
    ),
    (
        "checked",
        "the index as it is; tests/golden/tests/indices.rs has what it tells",
    ),
    ("iota", "`arange` of integers goes through it"),
    (
        "positions",
        "`argmax`, `sort` and `attention` go through it",
    ),
    (
        "unary",
        "the node under `neg`, `exp2`, `floor`...; each of them has cases",
    ),
    (
        "binary",
        "the node under `add`, `lt`, `shl`...; each of them has cases",
    ),
    (
        "erfc",
        "compared with numbers of twice the digits in tensor/tests/accuracy; `gelu` goes through it",
    ),
    ("select", "the node under `where_`"),
    (
        "nonzero",
        "reads the tensor; compared with PyTorch in tensor/tests/pytorch",
    ),
    (
        "masked_select",
        "reads the mask; compared with PyTorch in tensor/tests/pytorch",
    ),
    ("reduce", "the node under `sum`, `max`, `any`..."),
    ("scan", "the node under `cumsum`, `cummax`..."),
    ("to", "needs two engines; nothing is computed"),
    (
        "to_float",
        "a cast that `div` and `exp` of integers go through",
    ),
];

/// Names that a source file defines for users, if they give tensors.
fn operators(source: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    // The name of the macro whose table we are in: `binary! {` up to the closing brace.
    let mut table = false;
    let lines: Vec<&str> = source.lines().collect();
    for (at, line) in lines.iter().enumerate() {
        if line.starts_with("#[cfg(test)]") {
            break;
        }
        if !line.starts_with(' ') {
            table = line.ends_with("! {") && !line.starts_with("macro_rules!");
        }
        let name: String = line
            .trim_start()
            .trim_start_matches("pub fn ")
            .chars()
            .take_while(|c| c.is_alphanumeric() || *c == '_')
            .collect();
        let rest = line
            .trim_start()
            .trim_start_matches("pub fn ")
            .get(name.len()..)
            .unwrap_or("");
        if table {
            // `name, Op;` or `name(arguments), |x| body;` or `name, |x| body;`, indented once.
            let row = line.starts_with("    ") && !line.starts_with("     ");
            let starts = rest.starts_with(", ") || rest.starts_with('(') && rest.contains("), |");
            if row && starts && !name.is_empty() {
                found.insert(name);
            }
        } else if line.trim_start().starts_with("pub fn ") && !name.is_empty() {
            let mut signature = String::new();
            for line in &lines[at..] {
                signature.push_str(line);
                if line.ends_with('{') {
                    break;
                }
            }
            let gives = signature.split("->").nth(1).unwrap_or("");
            if gives.contains("Result<") && gives.contains("Tensor") {
                found.insert(name);
            }
        }
    }
    found
}

fn public() -> BTreeSet<String> {
    let tensor = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tensor/src");
    let mut files = vec![tensor.join("create.rs")];
    // Files only: the folders inside hold parts of them that define no operators.
    files.extend(
        std::fs::read_dir(tensor.join("ops"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .filter(|path| path.is_file()),
    );
    files
        .iter()
        .flat_map(|file| operators(&std::fs::read_to_string(file).unwrap()))
        .collect()
}

#[test]
fn every_public_operator_has_cases() {
    let references = References::open(&References::folder()).unwrap();
    let tested: BTreeSet<String> = references
        .groups
        .iter()
        .flat_map(|g| &g.cases)
        .map(|c| c.op.clone())
        .collect();
    let public = public();
    let exempt: BTreeSet<&str> = EXEMPT.iter().map(|(name, _)| *name).collect();
    let missing: Vec<&String> = public
        .iter()
        .filter(|name| !tested.contains(*name) && !exempt.contains(name.as_str()))
        .collect();
    assert!(
        missing.is_empty(),
        "no case for {missing:?}: add them to scripts/references and to tests/golden/src/call"
    );
    let stale: Vec<&&str> = exempt
        .iter()
        .filter(|name| tested.contains(**name) || !public.contains(**name))
        .collect();
    assert!(
        stale.is_empty(),
        "{stale:?} need no exemption: they have cases, or are no operators"
    );
}

#[test]
fn the_scan_finds_methods_and_macro_tables() {
    let public = public();
    for name in [
        "add", "exp", "floor", "sqrt", "relu", "elu", "matmul", "var_mean", "split", "conv",
    ] {
        assert!(public.contains(name), "{name} is not found in the source");
    }
    assert!(!public.contains("in_f32"), "in_f32 is not public");
    assert!(public.len() > 200, "{} operators", public.len());
}

/// An operation whose inputs are floats and whose result is one has a gradient, or a reason.
#[test]
fn differentiable_operators_have_gradients() {
    const NONE: &[&str] = &[
        // Results that are steps or positions.
        "sign",
        "ceil",
        "floor",
        "round",
        "trunc",
        "hardmax",
        "bernoulli",
        // No gradient goes through, by definition.
        "detach",
        "bitcast",
        // The coordinates are integers.
        "rotary_angles",
    ];
    let references = References::open(&References::folder()).unwrap();
    let mut with = BTreeSet::new();
    let mut without = BTreeSet::new();
    for group in &references.groups {
        for case in &group.cases {
            let float = |names: &[String]| {
                names
                    .iter()
                    .any(|n| group.array(n).unwrap().dtype.is_float())
            };
            if case.grads.is_some() {
                with.insert(case.op.as_str());
            } else if float(&case.inputs) && float(&case.outputs) && group.name != "optim" {
                without.insert(case.op.as_str());
            }
        }
    }
    let missing: Vec<&&str> = without
        .iter()
        .filter(|op| !with.contains(**op) && !NONE.contains(op))
        .collect();
    assert!(missing.is_empty(), "no gradient is checked for {missing:?}");
}
