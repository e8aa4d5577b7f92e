//! No files depend on each other in a circle: each can be read after those that it stands on.

use structure::tree::{Crate, circles};
use structure::{root, shipped};

#[test]
fn no_files_depend_on_each_other_in_a_circle() {
    let tops = shipped();
    assert!(tops.len() >= 10, "{tops:?}");
    let mut text = String::new();
    for top in tops {
        let edges = Crate::read(&top).edges();
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
