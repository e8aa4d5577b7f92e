//! Ensembles of trees of uneven depth, against going down each of them.

use crate::support;

use prost::Message;
use support::engine;
use tensor::onnx::proto::{AttributeProto, ModelProto, attribute_type};
use tensor::onnx::write::{self, Writer};
use tensor::onnx::{Dim, Model};
use tensor::{DType, Tensor};

const MODES: [&str; 6] = [
    "BRANCH_LEQ",
    "BRANCH_LT",
    "BRANCH_GTE",
    "BRANCH_GT",
    "BRANCH_EQ",
    "BRANCH_NEQ",
];

struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        ((self.0 >> 33) % n as u64) as usize
    }
}

#[derive(Default)]
struct Node {
    mode: usize,
    feature: usize,
    value: f32,
    missing: bool,
    /// The false way, the true way; none for a leaf.
    ways: Option<[usize; 2]>,
    /// For each target.
    votes: Vec<f32>,
}

/// Each branch ends when luck has it, or at a depth.
fn tree(random: &mut Random, depth: usize, shape: [usize; 2], modes: usize) -> Vec<Node> {
    let [width, targets] = shape;
    let mut nodes = vec![Node::default()];
    let mut open = vec![(0, 0)];
    while let Some((n, level)) = open.pop() {
        nodes[n].value = random.below(9) as f32 / 4.0 - 1.0;
        if level == depth || level > 0 && random.below(3) == 0 {
            nodes[n].votes = (0..targets)
                .map(|_| random.below(17) as f32 - 8.0)
                .collect();
            continue;
        }
        let next = nodes.len();
        nodes.extend([Node::default(), Node::default()]);
        nodes[n].mode = random.below(modes);
        nodes[n].feature = random.below(width);
        nodes[n].missing = modes > 1 && random.below(2) == 0;
        nodes[n].ways = Some([next, next + 1]);
        open.extend([(next, level + 1), (next + 1, level + 1)]);
    }
    nodes
}

fn votes(nodes: &[Node], x: &[f32]) -> Vec<f32> {
    let mut n = 0;
    while let Some(ways) = nodes[n].ways {
        let (node, x) = (&nodes[n], x[nodes[n].feature]);
        let holds = match node.mode {
            0 => x <= node.value,
            1 => x < node.value,
            2 => x >= node.value,
            3 => x > node.value,
            4 => x == node.value,
            _ => x != node.value,
        };
        n = ways[usize::from(holds || x.is_nan() && node.missing)];
    }
    nodes[n].votes.clone()
}

fn attribute(name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: name.into(),
        r#type: kind,
        ..AttributeProto::default()
    }
}

/// A forest on so many rows: its trees, their depths, features and targets, and how many modes it has.
fn check(rows: usize, trees: usize, depth: usize, shape: [usize; 2], modes: usize) {
    let mut random = Random(0x2545_f491_4f6c_dd1d);
    let [width, targets] = shape;
    let forest: Vec<Vec<Node>> = (0..trees)
        .map(|i| {
            tree(
                &mut random,
                if i % 5 == 0 { depth } else { depth / 2 },
                shape,
                modes,
            )
        })
        .collect();
    let x: Vec<f32> = (0..rows * width)
        .map(|_| match random.below(10) {
            0 => f32::NAN,
            n => n as f32 / 4.0 - 1.0,
        })
        .collect();
    let mut lists: Vec<(&str, Vec<i64>)> = [
        "nodes_treeids",
        "nodes_nodeids",
        "nodes_featureids",
        "nodes_truenodeids",
        "nodes_falsenodeids",
        "nodes_missing_value_tracks_true",
        "target_treeids",
        "target_nodeids",
        "target_ids",
    ]
    .map(|name| (name, vec![]))
    .into();
    let mut values = attribute("nodes_values", attribute_type::FLOATS);
    let mut weights = attribute("target_weights", attribute_type::FLOATS);
    let mut names = attribute("nodes_modes", attribute_type::STRINGS);
    for (t, nodes) in forest.iter().enumerate() {
        for (n, node) in nodes.iter().enumerate() {
            let ways = node.ways.unwrap_or_default();
            let row = [
                t,
                n,
                node.feature,
                ways[1],
                ways[0],
                usize::from(node.missing),
            ];
            for (list, number) in lists.iter_mut().zip(row) {
                list.1.push(number as i64);
            }
            values.floats.push(node.value);
            let mode = node.ways.map_or("LEAF", |_| MODES[node.mode]);
            names.strings.push(mode.into());
            for (target, &vote) in node.votes.iter().enumerate() {
                for (list, number) in lists[6..].iter_mut().zip([t, n, target]) {
                    list.1.push(number as i64);
                }
                weights.floats.push(vote);
            }
        }
    }
    let mut attrs = vec![
        values,
        weights,
        names,
        write::int("n_targets", targets as i64),
    ];
    attrs.extend(lists.iter().map(|(name, list)| write::ints(name, list)));
    for (how, start) in [
        ("SUM", 0.0),
        ("AVERAGE", 0.0),
        ("MIN", f32::MAX),
        ("MAX", f32::MIN),
    ] {
        let engine = engine();
        let mut model = Writer::new("trees", 17);
        model.import("ai.onnx.ml", 3);
        model.input(
            "x",
            &write::tensor(DType::F32, &[Dim::Fixed(rows), Dim::Fixed(width)]),
        );
        let mut attrs = attrs.clone();
        attrs.push(write::string("aggregate_function", how));
        model.node("TreeEnsembleRegressor", &["x"], &["y"], attrs);
        model.output("y", &write::tensor(DType::F32, &[]));
        let mut model = ModelProto::decode(&model.finish()[..]).unwrap();
        model.graph.as_mut().unwrap().node[0].domain = "ai.onnx.ml".into();
        let bytes = model.encode_to_vec();
        let session = Model::from_bytes("trees", bytes).unwrap().on(&engine);
        let input = Tensor::from_slice(&engine, &x, &[rows, width]).unwrap();
        let out = session.run([("x", input)]).unwrap();
        let got: Vec<f32> = out.tensor("y").unwrap().to_vec().unwrap();
        let mut want = vec![start; rows * targets];
        for (row, want) in want.chunks_mut(targets).enumerate() {
            for nodes in &forest {
                let each = votes(nodes, &x[row * width..][..width]);
                for (sum, vote) in want.iter_mut().zip(each) {
                    *sum = match how {
                        "MIN" => sum.min(vote),
                        "MAX" => sum.max(vote),
                        _ => *sum + vote,
                    };
                }
            }
        }
        if how == "AVERAGE" {
            want.iter_mut().for_each(|sum| *sum /= trees as f32);
        }
        for (i, (got, want)) in got.iter().zip(&want).enumerate() {
            assert!(
                (got - want).abs() < 1e-4,
                "{how} {rows} {trees} {i}: {got} {want}"
            );
        }
    }
}

#[test]
fn forests_of_all_sizes_vote_as_their_trees_do() {
    check(7, 75, 11, [5, 3], 6);
    check(16, 64, 6, [16, 1], 1);
}

#[test]
fn few_trees_and_few_rows_are_enough() {
    check(1, 40, 9, [3, 2], 6);
    check(3, 1, 1, [1, 1], 1);
}
