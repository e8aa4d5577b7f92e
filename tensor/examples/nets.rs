//! Convolutional nets with random weights as frozen functions: how long the first run and the
//! later ones take, and with `PROFILE=1` the kernels that take the most.
//!
//! ```sh
//! cargo run --release -p tensor --features llvm --example nets -- resnet50 densenet121
//! ```
//!
//! `CACHE=dir` keeps compiled kernels there, `RUNS=n` repeats, `STEPS=1` says what the
//! compiler did, `EXPLAIN=kernel` shows the code of one.
#![allow(clippy::unwrap_used, reason = "an example ends with the error")]

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

use codegen::{Backend, Built, Cache};
use drivers_cpu::{Config, CpuDevice};
use tensor::exec::{DeviceExecutor, Observer, Options};
use tensor::ops::conv::Sliding;
use tensor::{DType, Engine, Frozen, Result, Tensor};

type Build = fn(&mut Net, &Tensor) -> Result<Tensor>;

struct Net {
    engine: Engine,
    seed: u32,
}

impl Net {
    fn weight(&mut self, shape: &[usize]) -> Result<Tensor> {
        let n: usize = shape.iter().product();
        let fan: usize = shape.iter().skip(1).product();
        let scale = (6.0 / fan.max(1) as f32).sqrt();
        let mut bytes = Vec::with_capacity(n * 4);
        for _ in 0..n {
            self.seed = self
                .seed
                .wrapping_mul(1_664_525)
                .wrapping_add(1_013_904_223);
            let unit = (self.seed >> 8) as f32 / (1 << 23) as f32 - 1.0;
            bytes.extend_from_slice(&(unit * scale).to_le_bytes());
        }
        Tensor::from_bytes(&self.engine, bytes, shape, DType::F32)
    }

    fn conv(
        &mut self,
        x: &Tensor,
        out: usize,
        k: usize,
        s: usize,
        p: usize,
        g: usize,
    ) -> Result<Tensor> {
        let w = self.weight(&[out, x.shape()[1] / g, k, k])?;
        x.conv(&w, None, &Sliding::strided(s, 2).padded(p, 2), g)
    }

    fn conv_bias(
        &mut self,
        x: &Tensor,
        out: usize,
        k: usize,
        s: usize,
        p: usize,
        g: usize,
    ) -> Result<Tensor> {
        let y = self.conv(x, out, k, s, p, g)?;
        let b = self.weight(&[out, 1, 1])?;
        y.add(&b)
    }

    fn norm(&mut self, x: &Tensor) -> Result<Tensor> {
        let c = x.shape()[1];
        let mean = self.weight(&[c])?;
        let var = self.weight(&[c])?.abs()?.add(1.0)?;
        let (w, b) = (self.weight(&[c])?, self.weight(&[c])?);
        // As the importer writes it: a factor and a summand per channel.
        let k = w.div(&var.add(1e-5)?.sqrt()?)?;
        let b = b.sub(&mean.mul(&k)?)?;
        x.mul(&k.reshape(&[c, 1, 1])?)?.add(&b.reshape(&[c, 1, 1])?)
    }

    fn cbr(&mut self, x: &Tensor, out: usize, k: usize, s: usize, p: usize) -> Result<Tensor> {
        let y = self.conv(x, out, k, s, p, 1)?;
        self.norm(&y)?.relu()
    }

    fn cr(&mut self, x: &Tensor, out: usize, k: usize, s: usize, p: usize) -> Result<Tensor> {
        self.conv_bias(x, out, k, s, p, 1)?.relu()
    }

    fn fc(&mut self, x: &Tensor, out: usize) -> Result<Tensor> {
        let w = self.weight(&[out, x.shape()[1]])?;
        let b = self.weight(&[out])?;
        x.matmul(&w.t()?)?.add(&b)
    }
}

fn pool(x: &Tensor, k: usize, s: usize, p: usize) -> Result<Tensor> {
    x.max_pool(&[k, k], &Sliding::strided(s, 2).padded(p, 2), false)
}

fn flat(x: &Tensor) -> Result<Tensor> {
    let n: usize = x.shape()[1..].iter().product();
    x.reshape(&[x.shape()[0], n])
}

fn resnet50(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let mut x = pool(&n.cbr(x, 64, 7, 2, 3)?, 3, 2, 1)?;
    for (i, (blocks, c)) in [(3, 64), (4, 128), (6, 256), (3, 512)]
        .into_iter()
        .enumerate()
    {
        for b in 0..blocks {
            let s = if b == 0 && i > 0 { 2 } else { 1 };
            let y = n.cbr(&x, c, 1, s, 0)?;
            let y = n.cbr(&y, c, 3, 1, 1)?;
            let y = n.conv(&y, c * 4, 1, 1, 0, 1)?;
            let y = n.norm(&y)?;
            let short = if b == 0 {
                let z = n.conv(&x, c * 4, 1, s, 0, 1)?;
                n.norm(&z)?
            } else {
                x.clone()
            };
            x = y.add(&short)?.relu()?;
        }
    }
    let x = flat(&x.mean(&[2, 3], true)?)?;
    n.fc(&x, 1000)?.softmax(-1)
}

fn vgg19(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let mut x = x.clone();
    for (count, c) in [(2, 64), (2, 128), (4, 256), (4, 512), (4, 512)] {
        for _ in 0..count {
            x = n.cr(&x, c, 3, 1, 1)?;
        }
        x = pool(&x, 2, 2, 0)?;
    }
    let x = flat(&x)?;
    let x = n.fc(&x, 4096)?.relu()?;
    let x = n.fc(&x, 4096)?.relu()?;
    n.fc(&x, 1000)?.softmax(-1)
}

fn alexnet(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let x = n.conv_bias(x, 96, 11, 4, 0, 1)?.relu()?;
    let x = pool(&x.local_response_norm(5, 1e-4, 0.75, 1.0)?, 3, 2, 0)?;
    let x = n.conv_bias(&x, 256, 5, 1, 2, 2)?.relu()?;
    let x = pool(&x.local_response_norm(5, 1e-4, 0.75, 1.0)?, 3, 2, 0)?;
    let x = n.cr(&x, 384, 3, 1, 1)?;
    let x = n.conv_bias(&x, 384, 3, 1, 1, 2)?.relu()?;
    let x = n.conv_bias(&x, 256, 3, 1, 1, 2)?.relu()?;
    let x = flat(&pool(&x, 3, 2, 0)?)?;
    let x = n.fc(&x, 4096)?.relu()?;
    let x = n.fc(&x, 4096)?.relu()?;
    n.fc(&x, 1000)?.softmax(-1)
}

fn zfnet512(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let x = n.conv_bias(x, 96, 7, 2, 1, 1)?.relu()?;
    let x = pool(&x.local_response_norm(5, 1e-4, 0.75, 1.0)?, 3, 2, 0)?;
    let x = n.conv_bias(&x, 256, 5, 2, 0, 1)?.relu()?;
    let x = pool(&x.local_response_norm(5, 1e-4, 0.75, 1.0)?, 3, 2, 0)?;
    let x = n.cr(&x, 512, 3, 1, 1)?;
    let x = n.cr(&x, 1024, 3, 1, 1)?;
    let x = n.cr(&x, 512, 3, 1, 1)?;
    let x = flat(&pool(&x, 3, 2, 0)?)?;
    let x = n.fc(&x, 4096)?.relu()?;
    let x = n.fc(&x, 4096)?.relu()?;
    n.fc(&x, 1000)?.softmax(-1)
}

fn squeezenet(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    fn fire(n: &mut Net, x: &Tensor, s: usize, e: usize) -> Result<Tensor> {
        let y = n.cr(x, s, 1, 1, 0)?;
        let (a, b) = (n.cr(&y, e, 1, 1, 0)?, n.cr(&y, e, 3, 1, 1)?);
        Tensor::cat(&[&a, &b], 1)
    }
    let mut x = pool(&n.cr(x, 64, 3, 2, 0)?, 3, 2, 0)?;
    for (i, (s, e)) in [
        (16, 64),
        (16, 64),
        (32, 128),
        (32, 128),
        (48, 192),
        (48, 192),
        (64, 256),
        (64, 256),
    ]
    .into_iter()
    .enumerate()
    {
        if i == 2 || i == 4 {
            x = pool(&x, 3, 2, 0)?;
        }
        x = fire(n, &x, s, e)?;
    }
    let x = n.cr(&x, 1000, 1, 1, 0)?;
    flat(&x.mean(&[2, 3], true)?)?.softmax(-1)
}

fn shufflenet(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let g = 3;
    let mut x = pool(&n.cbr(x, 24, 3, 2, 1)?, 3, 2, 1)?;
    for (blocks, c) in [(4, 240), (8, 480), (4, 960)] {
        for b in 0..blocks {
            let cin = x.shape()[1];
            let out = if b == 0 { c - cin } else { c };
            let s = if b == 0 { 2 } else { 1 };
            let y = n.conv(&x, c / 4, 1, 1, 0, if cin == 24 { 1 } else { g })?;
            let y = n.norm(&y)?.relu()?;
            let [b1, ch, h, w] = y.shape()[..] else {
                unreachable!()
            };
            let y = y
                .reshape(&[b1, g, ch / g, h, w])?
                .permute(&[0, 2, 1, 3, 4])?
                .reshape(&[b1, ch, h, w])?;
            let y = n.conv(&y, ch, 3, s, 1, ch)?;
            let y = n.norm(&y)?;
            let y = n.conv(&y, out, 1, 1, 0, g)?;
            let y = n.norm(&y)?;
            x = if b == 0 {
                let short =
                    x.avg_pool(&[3, 3], &Sliding::strided(2, 2).padded(1, 2), false, true)?;
                Tensor::cat(&[&short, &y], 1)?.relu()?
            } else {
                x.add(&y)?.relu()?
            };
        }
    }
    let x = flat(&x.mean(&[2, 3], true)?)?;
    n.fc(&x, 1000)?.softmax(-1)
}

fn densenet121(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let mut x = pool(&n.cbr(x, 64, 7, 2, 3)?, 3, 2, 1)?;
    for (i, blocks) in [6, 12, 24, 16].into_iter().enumerate() {
        for _ in 0..blocks {
            let y = n.norm(&x)?.relu()?;
            let y = n.cbr(&y, 128, 1, 1, 0)?;
            let y = n.conv(&y, 32, 3, 1, 1, 1)?;
            x = Tensor::cat(&[&x, &y], 1)?;
        }
        if i < 3 {
            let y = n.norm(&x)?.relu()?;
            let c = y.shape()[1] / 2;
            let y = n.conv(&y, c, 1, 1, 0, 1)?;
            x = y.avg_pool(&[2, 2], &Sliding::strided(2, 2), false, true)?;
        }
    }
    let x = n.norm(&x)?.relu()?.mean(&[2, 3], true)?;
    let x = n.conv_bias(&x, 1000, 1, 1, 0, 1)?;
    flat(&x)?.softmax(-1)
}

fn inception(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let x = pool(&n.cr(x, 64, 7, 2, 3)?, 3, 2, 1)?.local_response_norm(5, 1e-4, 0.75, 1.0)?;
    let x = n.cr(&x, 64, 1, 1, 0)?;
    let x = n
        .cr(&x, 192, 3, 1, 1)?
        .local_response_norm(5, 1e-4, 0.75, 1.0)?;
    let mut x = pool(&x, 3, 2, 1)?;
    let rows = [
        (64, 96, 128, 16, 32, 32),
        (128, 128, 192, 32, 96, 64),
        (192, 96, 208, 16, 48, 64),
        (160, 112, 224, 24, 64, 64),
        (128, 128, 256, 24, 64, 64),
        (112, 144, 288, 32, 64, 64),
        (256, 160, 320, 32, 128, 128),
        (256, 160, 320, 32, 128, 128),
        (384, 192, 384, 48, 128, 128),
    ];
    for (i, (a, b, c, d, e, f)) in rows.into_iter().enumerate() {
        if i == 2 || i == 7 {
            x = pool(&x, 3, 2, 1)?;
        }
        let one = n.cr(&x, a, 1, 1, 0)?;
        let two = n.cr(&x, b, 1, 1, 0)?;
        let two = n.cr(&two, c, 3, 1, 1)?;
        let three = n.cr(&x, d, 1, 1, 0)?;
        let three = n.cr(&three, e, 5, 1, 2)?;
        let four = n.cr(&pool(&x, 3, 1, 1)?, f, 1, 1, 0)?;
        x = Tensor::cat(&[&one, &two, &three, &four], 1)?;
    }
    let x = flat(&x.mean(&[2, 3], true)?)?;
    n.fc(&x, 1000)?.softmax(-1)
}

/// An encoder of six layers over `[batch, sequence, 384]`.
fn minilm(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let [b, s, h] = x.shape()[..] else {
        unreachable!()
    };
    let heads = 12;
    let mut x = x.clone();
    fn linear(n: &mut Net, x: &Tensor, out: usize) -> Result<Tensor> {
        let w = n.weight(&[x.shape()[2], out])?;
        let b = n.weight(&[out])?;
        x.matmul(&w)?.add(&b)
    }
    for _ in 0..6 {
        let split = |t: Tensor| t.reshape(&[b, s, heads, h / heads])?.permute(&[0, 2, 1, 3]);
        let (q, k, v) = (linear(n, &x, h)?, linear(n, &x, h)?, linear(n, &x, h)?);
        let (q, k, v) = (split(q)?, split(k)?, split(v)?);
        let score = q
            .matmul(&k.transpose(2, 3)?)?
            .mul(1.0 / 32f64.sqrt())?
            .softmax(-1)?;
        let y = score
            .matmul(&v)?
            .permute(&[0, 2, 1, 3])?
            .reshape(&[b, s, h])?;
        let y = linear(n, &y, h)?;
        let (w, c) = (n.weight(&[h])?, n.weight(&[h])?);
        x = x.add(&y)?.layer_norm(1, Some(&w), Some(&c), 1e-12)?;
        let y = linear(n, &x, 4 * h)?;
        let half = y.mul(1.0 / 2f64.sqrt())?.erf()?.add(1.0)?.mul(0.5)?;
        let y = linear(n, &y.mul(&half)?, h)?;
        let (w, c) = (n.weight(&[h])?, n.weight(&[h])?);
        x = x.add(&y)?.layer_norm(1, Some(&w), Some(&c), 1e-12)?;
    }
    Ok(x)
}

/// Says what the compiler did with each kernel.
struct Steps;

impl Observer for Steps {
    fn compiled(&self, name: &str, built: &Built) {
        println!("  {name}: {:.0} flops", built.flops);
        for (stage, opts) in built.stages.iter().zip(&built.report.opts) {
            println!("    {} x{}: {opts}", stage.name, stage.grid[0]);
        }
        if std::env::var("EXPLAIN").is_ok_and(|wanted| wanted == name) {
            println!("{}", built.report.after.join("\n"));
            println!("{}", built.report.source.join("\n"));
        }
    }
}

/// A recurrent layer, step by step: a graph of thousands of nodes.
fn lstm(n: &mut Net, x: &Tensor) -> Result<Tensor> {
    let [steps, batch, width] = x.shape()[..] else {
        unreachable!()
    };
    let hidden = 128;
    let (w, r) = (
        n.weight(&[width, 4 * hidden])?,
        n.weight(&[hidden, 4 * hidden])?,
    );
    let zero = Tensor::zeros(&n.engine, &[batch, hidden], DType::F32)?;
    let (mut h, mut c) = (zero.clone(), zero);
    let mut all = Vec::new();
    for t in 0..steps {
        let gates = x.index(0, t as isize)?.matmul(&w)?.add(&h.matmul(&r)?)?;
        let g = gates.chunk(4, 1)?;
        let (i, o, f) = (g[0].sigmoid()?, g[1].sigmoid()?, g[2].sigmoid()?);
        c = f.mul(&c)?.add(&i.mul(&g[3].tanh()?)?)?;
        h = o.mul(&c.tanh()?)?;
        all.push(h.clone());
    }
    Tensor::stack(&all.iter().collect::<Vec<_>>(), 0)
}

fn peak() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM"));
    line.unwrap_or("").replace("VmHWM:", "").trim().to_string()
}

fn main() {
    let start = Instant::now();
    let number = |name: &str, default: usize| {
        std::env::var(name)
            .ok()
            .and_then(|v| v.parse().ok())
            .unwrap_or(default)
    };
    let profile = number("PROFILE", 0);
    let cores = number("CORES", 2);
    let device = CpuDevice::open(Config {
        cores,
        ..Config::default()
    })
    .unwrap();
    #[cfg(feature = "llvm")]
    let backend = Backend::cpu_llvm(cores).unwrap();
    #[cfg(not(feature = "llvm"))]
    let backend = Backend::cpu_clang(cores).unwrap();
    let mut options = Options {
        profile: profile > 0,
        ..Options::default()
    };
    options.codegen.explain = std::env::var("EXPLAIN").is_ok();
    if number("STEPS", 0) > 0 || options.codegen.explain {
        options.observer = Some(Arc::new(Steps));
    }
    if let Ok(dir) = std::env::var("CACHE") {
        options.codegen.cache = Some(Arc::new(Cache::open(dir, 1 << 30).unwrap()));
    }
    let engine = DeviceExecutor::engine(device, backend, options).unwrap();
    println!("open {:.0} ms", start.elapsed().as_secs_f64() * 1e3);
    for name in std::env::args().skip(1) {
        let mut net = Net {
            engine: engine.clone(),
            seed: 7,
        };
        let (build, shape): (Build, Vec<usize>) = match name.as_str() {
            "resnet50" => (resnet50, vec![1, 3, 224, 224]),
            "vgg19" => (vgg19, vec![1, 3, 224, 224]),
            "alexnet" => (alexnet, vec![1, 3, 227, 227]),
            "zfnet512" => (zfnet512, vec![1, 3, 224, 224]),
            "squeezenet" => (squeezenet, vec![1, 3, 224, 224]),
            "shufflenet" => (shufflenet, vec![1, 3, 224, 224]),
            "densenet121" => (densenet121, vec![1, 3, 224, 224]),
            "inception" => (inception, vec![1, 3, 224, 224]),
            "minilm" => (minilm, vec![number("BATCH", 1), number("SEQ", 128), 384]),
            "lstm" => (lstm, vec![number("SEQ", 64), 1, 64]),
            other => panic!("no net {other}"),
        };
        let input = net.weight(&shape).unwrap();
        let start = Instant::now();
        let mut weights = 0.0;
        let mut net = Net {
            engine: engine.clone(),
            seed: 9,
        };
        let mut frozen = Frozen::capture(&engine, &[(shape, DType::F32)], |x| {
            let t = Instant::now();
            let y = build(&mut net, &x[0])?;
            weights = t.elapsed().as_secs_f64() * 1e3;
            Ok(vec![y])
        })
        .unwrap();
        let made = start.elapsed().as_secs_f64() * 1e3;
        let input = std::slice::from_ref(&input);
        let y = frozen.call(input).unwrap()[0].to_vec::<f32>().unwrap();
        let first = start.elapsed().as_secs_f64() * 1e3;
        let executor = DeviceExecutor::of(&engine).unwrap();
        executor.take_runs();
        let mut times = Vec::new();
        for _ in 0..number("RUNS", 20) {
            let t = Instant::now();
            frozen.call(input).unwrap()[0].to_bytes().unwrap();
            times.push(t.elapsed().as_secs_f64() * 1e3);
        }
        times.sort_by(f64::total_cmp);
        let norm = y.iter().map(|v| v * v).sum::<f32>();
        println!(
            "{name}: graph {weights:.0} ms, capture {:.0} ms, first {:.0} ms, min {:.2} median {:.2} ms, peak {}, |y|^2 {norm:e}",
            made - weights,
            first - weights,
            times[0],
            times[times.len() / 2],
            peak()
        );
        if profile > 0 {
            let mut sums: HashMap<String, (f64, usize)> = HashMap::new();
            for run in executor.take_runs() {
                let entry = sums.entry(run.name.clone()).or_default();
                entry.0 += run.seconds() * 1e3;
                entry.1 += 1;
            }
            let mut all: Vec<_> = sums.into_iter().collect();
            all.sort_by(|a, b| b.1.0.total_cmp(&a.1.0));
            let runs = times.len() as f64;
            let total: f64 = all.iter().map(|r| r.1.0).sum::<f64>() / runs;
            println!("  {total:8.3} ms in kernels");
            for (kernel, (ms, count)) in all.iter().take(profile) {
                println!(
                    "  {:8.3} ms {:4}x {kernel}",
                    ms / runs,
                    *count as f64 / runs
                );
            }
        }
    }
}
