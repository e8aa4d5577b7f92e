//! Reading C headers: their text for what is there, a compiler for what it amounts to.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Headers of which text and meaning are wanted.
pub struct Headers {
    /// Folders that `#include` looks into.
    pub folders: Vec<PathBuf>,
    /// What is included, of what exists.
    pub includes: Vec<String>,
    /// Their text, without comments.
    pub text: String,
    /// A line before all of them.
    pub define: Option<&'static str>,
    /// The macros of the text are compiled instead of the files.
    pub inline: bool,
}

impl Headers {
    pub fn new(folders: Vec<PathBuf>, wanted: &[&str]) -> Headers {
        let (mut includes, mut text) = (Vec::new(), String::new());
        for name in wanted {
            let Some(path) = folders.iter().map(|f| f.join(name)).find(|p| p.exists()) else {
                continue;
            };
            includes.push((*name).to_owned());
            text.push_str(&without_comments(&read(&path)));
        }
        Headers {
            folders,
            includes,
            text,
            define: None,
            inline: false,
        }
    }

    /// Whether the text defines a macro.
    pub fn defines(&self, name: &str) -> bool {
        let mut lines = self.text.lines();
        lines.any(|line| {
            let mut words = line.split_whitespace();
            words.next() == Some("#define") && words.next() == Some(name)
        })
    }

    /// The names of the fields of a type; none where the text has no such type.
    pub fn fields(&self, name: &str) -> Option<Vec<String>> {
        let ends = self.text.match_indices('}');
        let mut ends = ends.filter(|(at, _)| {
            let rest = self.text[at + 1..].trim_start().trim_start_matches('*');
            let rest = rest.strip_prefix(name);
            rest.is_some_and(|rest| rest.trim_start().starts_with([';', ',']))
        });
        let (end, _) = ends.next()?;
        let mut depth = 0;
        let start = self.text[..end].rfind(|c| {
            depth += match c {
                '}' => 1,
                '{' => -1,
                _ => 0,
            };
            depth < 0
        })?;
        Some(names(&self.text[start + 1..end]))
    }

    /// The values of expressions, each an integer.
    pub fn values(&self, expressions: &[String]) -> Vec<u64> {
        let mut program = "#include <stddef.h>\n#include <stdio.h>\n".to_owned();
        program += self.define.unwrap_or_default();
        program.push('\n');
        let macros = |line: &&str| line.trim_start().starts_with("#define");
        for line in self.text.lines().filter(macros).filter(|_| self.inline) {
            program += &format!("{line}\n");
        }
        for include in self.includes.iter().filter(|_| !self.inline) {
            program += &format!("#include <{include}>\n");
        }
        program += "int main(void) {\n";
        for expression in expressions {
            program += &format!("  printf(\"%llu\\n\", (unsigned long long)({expression}));\n");
        }
        program += "  return 0;\n}\n";
        let unique = format!("doorbell-nv-{}-{:p}", std::process::id(), &program);
        let folder = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&folder).unwrap();
        let (source, binary) = (folder.join("facts.c"), folder.join("facts"));
        std::fs::write(&source, program).unwrap();
        let mut cc = Command::new("cc");
        cc.arg("-w").arg(&source).arg("-o").arg(&binary);
        for folder in &self.folders {
            cc.arg("-I").arg(folder);
        }
        let cc = cc.output().unwrap();
        assert!(
            cc.status.success(),
            "{}",
            String::from_utf8_lossy(&cc.stderr)
        );
        let out = Command::new(&binary).output().unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        let out = String::from_utf8(out.stdout).unwrap();
        let values: Vec<u64> = out.lines().map(|line| line.parse().unwrap()).collect();
        assert_eq!(values.len(), expressions.len());
        values
    }
}

pub fn read(path: &Path) -> String {
    let bytes = std::fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    String::from_utf8_lossy(&bytes).into_owned()
}

fn without_comments(text: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("/*") {
        out.push_str(&rest[..at]);
        out.push(' ');
        let after = &rest[at + 2..];
        rest = after.find("*/").map_or("", |end| &after[end + 2..]);
    }
    out.push_str(rest);
    let lines = out.lines().map(|line| line.split("//").next().unwrap());
    lines.collect::<Vec<_>>().join("\n")
}

/// The names that the body of a struct declares. A struct or union inside of it counts as one.
fn names(body: &str) -> Vec<String> {
    let mut flat = String::new();
    let mut depth = 0;
    for c in body.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ if depth == 0 => flat.push(c),
            _ => {}
        }
    }
    let declarations = flat.split(';').map(str::trim).filter(|d| !d.is_empty());
    declarations
        .map(|declaration| {
            let aligned = declaration.strip_prefix("NV_DECLARE_ALIGNED(");
            let declaration = match aligned {
                Some(inner) => inner.rsplit_once(',').unwrap().0,
                None => {
                    let declaration = declaration.split("NV_ALIGN_BYTES").next().unwrap();
                    declaration.split("__aligned").next().unwrap()
                }
            };
            let name = declaration.split('[').next().unwrap();
            name.split_whitespace().last().unwrap().to_owned()
        })
        .collect()
}

#[test]
fn headers_are_read_as_they_are() {
    let text = without_comments(
        "/* } A; */ typedef struct { int x; // } A;\n NvU64 y[4][2] NV_ALIGN_BYTES(8);\n\
         NV_DECLARE_ALIGNED(NvU64 z[N], 8); struct { int inside; } w __aligned(8); } A, *PA;\n#define B  2\n#define BC 3",
    );
    let headers = Headers {
        folders: Vec::new(),
        includes: Vec::new(),
        text,
        define: None,
        inline: false,
    };
    assert_eq!(headers.fields("A").unwrap(), ["x", "y", "z", "w"]);
    assert_eq!(headers.fields("B"), None);
    assert!(headers.defines("B") && !headers.defines("C"));
    let values = headers.values(&["sizeof(int)".into(), "(1 ? 5:3) - (0 ? 5:3)".into()]);
    assert_eq!(values, [4, 2]);
}
