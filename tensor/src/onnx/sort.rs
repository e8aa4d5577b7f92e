//! The order in which the nodes of a graph can run.
//!
//! The format requires files to be in such an order, but many writers ignore that. Nodes keep a valid order.

use std::collections::{BTreeSet, HashMap, HashSet};

use super::proto::{GraphProto, NodeProto};

/// Why there is no order; nodes by position.
pub(super) enum Fault {
    /// Two nodes make the value of that name.
    Twice(String, usize, usize),
    /// The node needs what it makes itself.
    Cycle(usize),
}

/// Positions of the nodes, sources before users. Names that no node makes are left to the caller.
pub(super) fn order(nodes: &[NodeProto]) -> Result<Vec<usize>, Fault> {
    let mut maker: HashMap<&str, usize> = HashMap::new();
    for (at, node) in nodes.iter().enumerate() {
        for name in node.output.iter().filter(|n| !n.is_empty()) {
            if let Some(other) = maker.insert(name, at) {
                return Err(Fault::Twice(name.clone(), other, at));
            }
        }
    }
    let mut users: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    let mut waits = vec![0usize; nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        let mut sources: BTreeSet<usize> = BTreeSet::new();
        let mut add = |name: &str| sources.extend(maker.get(name));
        node.input.iter().for_each(|name| add(name));
        for attribute in &node.attribute {
            let graphs = attribute.g.iter().chain(&attribute.graphs);
            graphs.for_each(|graph| names_in(graph, &mut add));
        }
        waits[at] = sources.len();
        for source in sources {
            users[source].push(at);
        }
    }
    let mut ready: BTreeSet<usize> = (0..nodes.len()).filter(|&n| waits[n] == 0).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(at) = ready.pop_first() {
        order.push(at);
        for &user in &users[at] {
            waits[user] -= 1;
            if waits[user] == 0 {
                ready.insert(user);
            }
        }
    }
    match waits.iter().position(|&n| n > 0) {
        Some(_) => Err(Fault::Cycle(on_cycle(&users, &waits))),
        None => Ok(order),
    }
}

/// A node that is on a cycle, not merely behind one: going back from waiting node to waiting node
/// must come round.
fn on_cycle(users: &[Vec<usize>], waits: &[usize]) -> usize {
    let mut source = vec![None; waits.len()];
    for (at, after) in users.iter().enumerate().filter(|&(at, _)| waits[at] > 0) {
        for &user in after {
            source[user] = Some(at);
        }
    }
    let mut at = waits.iter().position(|&n| n > 0).unwrap_or(0);
    for _ in 0..waits.len() {
        at = source[at].unwrap_or(at);
    }
    at
}

/// The names that a subgraph takes from outside: what it and the graphs in it mention and none of
/// them makes.
fn names_in(graph: &GraphProto, add: &mut impl FnMut(&str)) {
    let mut all = vec![graph];
    let mut next = 0;
    while let Some(&graph) = all.get(next) {
        next += 1;
        let attributes = graph.node.iter().flat_map(|n| &n.attribute);
        all.extend(attributes.flat_map(|a| a.g.iter().chain(&a.graphs)));
    }
    let mut own: HashSet<&str> = HashSet::new();
    for graph in &all {
        own.extend(graph.input.iter().map(|i| i.name.as_str()));
        own.extend(graph.initializer.iter().map(|i| i.name.as_str()));
        own.extend(
            graph
                .node
                .iter()
                .flat_map(|n| &n.output)
                .map(String::as_str),
        );
    }
    for graph in &all {
        let outputs = graph.output.iter().map(|o| o.name.as_str());
        let inputs = graph.node.iter().flat_map(|n| &n.input).map(String::as_str);
        outputs
            .chain(inputs)
            .filter(|name| !own.contains(name))
            .for_each(&mut *add);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(inputs: &[&str], outputs: &[&str]) -> NodeProto {
        NodeProto {
            input: inputs.iter().map(|s| s.to_string()).collect(),
            output: outputs.iter().map(|s| s.to_string()).collect(),
            ..NodeProto::default()
        }
    }

    #[test]
    fn sources_come_first_and_order_is_kept() {
        let nodes = [
            node(&["b"], &["c"]),
            node(&["x"], &["a"]),
            node(&["a"], &["b"]),
            node(&["x"], &["d"]),
        ];
        assert_eq!(order(&nodes).ok(), Some(vec![1, 2, 0, 3]));
    }

    #[test]
    fn cycles_and_doubles_are_found() {
        let nodes = [
            node(&["c"], &["z"]),
            node(&["c"], &["b"]),
            node(&["b"], &["c"]),
        ];
        assert!(matches!(order(&nodes), Err(Fault::Cycle(1 | 2))));
        let nodes = [node(&[], &["a"]), node(&[], &["a"])];
        assert!(matches!(order(&nodes), Err(Fault::Twice(_, 0, 1))));
    }
}
