//! No files depend on each other in a circle: each can be read after those that it stands on.

use structure::tree::{Crate, circles};
use structure::{root, shipped};

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let folders = shipped();
    assert!(folders.len() >= 9, "{folders:?}");
    let mut text = String::new();
    for folder in folders {
        let edges = Crate::read(&folder).edges();
        for circle in circles(&edges) {
            let short = |file: &std::path::Path| {
                file.strip_prefix(root())
                    .unwrap_or(file)
                    .display()
                    .to_string()
            };
            text += &format!("a circle of {} files:\n", circle.len());
            for (from, to) in &edges {
                if circle.contains(from) && circle.contains(to) {
                    text += &format!("  {} takes names of {}\n", short(from), short(to));
                }
            }
        }
    }
    assert!(text.is_empty(), "{text}");
}
