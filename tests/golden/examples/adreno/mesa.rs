//! Kernels that Mesa has compiled, as `scripts/ir3-mesa` writes them.

/// Machine code, and what it is launched with.
#[derive(Clone, Debug, Default)]
pub struct Compiled {
    /// `NUMBER:NAME`.
    pub name: String,
    /// Vectors of registers.
    pub full: u32,
    pub half: u32,
    /// Points where fibers are parked.
    pub branches: u32,
    /// Registers of the number of the group and of the fiber.
    pub group: u32,
    pub item: u32,
    pub local_bytes: u32,
    pub private_bytes: u32,
    /// Waves have 128 fibers.
    pub double: bool,
    /// Where bytes of the arguments are in the constant file: the first byte there, the first one of them and the one
    /// behind the last.
    pub pushed: [u32; 3],
    /// Where its own constants are.
    pub own: u32,
    pub const_vectors: u32,
    /// Instructions, slots of nops, (ss) and (sy), as Mesa counts them.
    pub counts: [u32; 4],
    pub immediates: Vec<u8>,
    pub code: Vec<u8>,
}

fn bytes(text: &str) -> Vec<u8> {
    let digits = text.trim_matches('-').as_bytes();
    let two = digits.chunks(2).map(|d| std::str::from_utf8(d).unwrap());
    two.map(|d| u8::from_str_radix(d, 16).unwrap()).collect()
}

/// All of a file.
pub fn parse(text: &str) -> Vec<Compiled> {
    let mut all: Vec<Compiled> = Vec::new();
    for line in text.lines() {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        if word == "kernel" {
            all.push(Compiled {
                name: rest.into(),
                ..Compiled::default()
            });
            continue;
        }
        let Some(last) = all.last_mut() else { continue };
        match word {
            "mesa" => {
                let n: Vec<u32> = rest.split(' ').map(|n| n.parse().unwrap()).collect();
                [last.full, last.half, last.branches, last.group] = [n[0], n[1], n[2], n[3]];
                [last.item, last.local_bytes, last.private_bytes] = [n[4], n[5], n[6]];
                last.double = n[7] != 0;
                last.pushed = [n[8], n[9], n[10]];
                [last.own, last.const_vectors] = [n[11], n[12]];
                last.counts = [n[13], n[14], n[15], n[16]];
            }
            "immediates" => last.immediates = bytes(rest),
            "code" => last.code = bytes(rest),
            other => panic!("{other}: expected mesa, immediates or code"),
        }
    }
    all
}
