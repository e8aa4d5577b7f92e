//! Indices out of range that only a device knows: kernels of every kind of GPU note them, and the next wait
//! tells.
use golden::engines::{self, Rig};
use tensor::exec::Options;
use tensor::{DType, Engine, Error, Jit, Result, Tensor};

const ROWS: usize = 40;
const WIDTH: usize = 33;

fn table(e: &Engine) -> Tensor {
    let all = Tensor::iota(e, ROWS * WIDTH, DType::I32).unwrap();
    let all = all.cast(DType::F32).unwrap().reshape(&[ROWS, WIDTH]);
    all.unwrap().contiguous().unwrap()
}

/// An index that the host does not know.
fn computed(e: &Engine, index: &[i32]) -> Tensor {
    let index = Tensor::from_slice(e, index, &[index.len()]).unwrap();
    index
        .add(index.zeros_like().unwrap().contiguous().unwrap())
        .unwrap()
}

fn told<T: std::fmt::Debug>(chip: &str, waited: Result<T>) -> (&'static str, i64, usize) {
    match waited {
        Err(Error::Index { op, index, len, .. }) => (op, index, len),
        other => panic!("{chip}: expected an index out of range, found {other:?}"),
    }
}

fn looked_at(chip: &str, e: &Engine) {
    let t = table(e);
    let floats = |t: Tensor| t.to_vec::<f32>().unwrap();
    let cell = |row: usize, column: usize| (row * WIDTH + column) as f32;
    let right = |e: &Engine| {
        let found = floats(t.embedding(&computed(e, &[39, -40, 3])).unwrap());
        let want = [39, 0, 3].map(|row| (0..WIDTH).map(move |column| cell(row, column)));
        assert_eq!(
            found,
            want.into_iter().flatten().collect::<Vec<_>>(),
            "{chip}"
        );
    };
    right(e);
    e.synchronize().unwrap();
    // Rows.
    let wrong = t.embedding(&computed(e, &[1, 40, 3])).unwrap();
    assert_eq!(told(chip, wrong.to_vec::<f32>()), ("embedding", 40, ROWS));
    right(e);
    // Elements: another index for each lane, and one for all rows of a sum.
    let mut index: Vec<i32> = (0..70).map(|i| i % 33 - 16).collect();
    let sums = |index: &[i32]| {
        let picked = t.index_select(1, &computed(e, index)).unwrap();
        picked.sum(&[0], false).unwrap().to_vec::<f32>()
    };
    sums(&index).unwrap();
    index[41] = -34;
    assert_eq!(told(chip, sums(&index)), ("index_select", -34, WIDTH));
    let line = t.reshape(&[ROWS * WIDTH]).unwrap();
    let all: Vec<i32> = (0..1000).collect();
    let taken = |index: &[i32]| line.take(&computed(e, index)).unwrap().to_vec::<f32>();
    assert_eq!(taken(&all).unwrap()[999], 999.0, "{chip}");
    let mut far = all;
    far[500] = 1 << 30;
    assert_eq!(told(chip, taken(&far)), ("take", 1 << 30, ROWS * WIDTH));
    // Where it is written.
    let ones = Tensor::ones(e, &[3, WIDTH], DType::F32).unwrap();
    let added = |index: &[i32]| {
        let index = computed(e, index).unsqueeze(1).unwrap();
        let index = index.expand(&[3, WIDTH]).unwrap();
        t.scatter_add(0, &index, &ones).unwrap().to_vec::<f32>()
    };
    assert_eq!(told(chip, added(&[2, 99, 2])), ("scatter_add", 99, ROWS));
    assert_eq!(added(&[2, 7, 2]).unwrap()[2 * WIDTH], cell(2, 0) + 2.0);
    // By a replay.
    let read = Jit::new(e, |x: &[Tensor]| Ok(vec![t.embedding(&x[0])?.mul(2.0)?]));
    for (index, wrong) in [([0, 1], None), ([1, -41], Some(-41)), ([5, 6], None)] {
        let index = Tensor::from_slice(e, &index, &[2]).unwrap();
        let found = read.call(&[index]).unwrap().remove(0).to_vec::<f32>();
        match wrong {
            Some(index) => assert_eq!(told(chip, found), ("embedding", index, ROWS)),
            None => assert_eq!(found.unwrap().len(), 2 * WIDTH),
        }
    }
    e.synchronize().unwrap();
}

macro_rules! rigs {
    ($($name:ident: $made:expr;)*) => {
        $(#[test]
        fn $name() {
            let Some(rig) = Rig::of_test($made) else {
                return;
            };
            looked_at(stringify!($name), &rig.engine);
            rig.finish().unwrap();
        })*
    };
}

rigs! {
    cpu: engines::cpu();
    gfx1100: engines::gpu("gfx1100", Options::default());
    gfx1201: engines::gpu("gfx1201", Options::default());
    gfx942: engines::gpu("gfx942,xcc=1", Options::default());
    sm_86: engines::gpu("sm_86", Options::default());
    sm_90: engines::gpu("sm_90:PTX", Options::default());
    // Memory that the host reaches another way.
    gfx1100_remote: engines::gfx1100_remote();
    gfx1201_pci: engines::gfx1201_pci();
    gfx1201_usb: engines::gfx1201_usb();
}
