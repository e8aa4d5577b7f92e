//! A beam search with a small recurrent decoder: each step keeps the best of all continuations. One captured function
//! makes a step; what it gives is what it gets next, and stays on the device until the end.

use doorbell::{DType, Jit, Result, Tensor, no_grad};

use super::check::{all_close, wave};

const TOKENS: usize = 30;
const WIDTH: usize = 12;
const BEAMS: usize = 4;

pub fn run() -> Result<()> {
    let engine = doorbell::open()?;
    let embedding = wave(&engine, &[TOKENS, WIDTH], 1.0, 1.0)?;
    let weight = wave(&engine, &[WIDTH, WIDTH], 2.0, 0.7)?;
    let head = wave(&engine, &[WIDTH, TOKENS], 3.0, 1.3)?;
    // State, scores and last tokens of the beams, to the same and the beam that each comes from.
    let step = Jit::new(&engine, |beams: &[Tensor]| {
        no_grad(|| {
            let h = beams[0]
                .matmul(&weight)?
                .add(&embedding.embedding(&beams[2])?)?;
            let h = h.tanh()?;
            let scores = h
                .matmul(&head)?
                .log_softmax(-1)?
                .add(&beams[1].unsqueeze(1)?)?;
            let (scores, best) = scores.flatten(0, -1)?.topk(BEAMS, 0, true)?;
            let from = best.floor_div(TOKENS as i32)?;
            let token = best.modulo(TOKENS as i32)?;
            Ok::<_, doorbell::tensor::Error>(vec![h.index_select(0, &from)?, scores, token, from])
        })
    });
    // All beams are one at first: the others are never the best.
    let never = f32::NEG_INFINITY;
    let mut beams = vec![
        Tensor::zeros(&engine, &[BEAMS, WIDTH], DType::F32)?,
        Tensor::new(&engine, [0.0, never, never, never])?,
        Tensor::zeros(&engine, &[BEAMS], DType::I32)?,
    ];
    let mut steps = Vec::new();
    for _ in 0..10 {
        let mut made = step.call(&beams)?;
        let from = made.split_off(3);
        steps.push((made[2].clone(), from));
        beams = made;
    }
    // The way back from the end, on the host.
    let mut paths = vec![Vec::new(); BEAMS];
    let mut at: Vec<usize> = (0..BEAMS).collect();
    for (token, from) in steps.iter().rev() {
        let (token, from) = (token.to_vec::<i32>()?, from[0].to_vec::<i32>()?);
        for (path, at) in paths.iter_mut().zip(&mut at) {
            path.insert(0, token[*at]);
            *at = from[*at] as usize;
        }
    }
    // log_softmax and topk of PyTorch 2.15.0 in a loop.
    let expected = [-8.179_274_6, -9.201_217_7, -9.993_293_8, -10.232_993];
    all_close("scores", &beams[1].to_vec::<f32>()?, &expected, 1e-5);
    let expected = [
        [26, 13, 10, 11, 11, 11, 9, 9, 10, 10],
        [26, 13, 10, 7, 6, 1, 18, 18, 4, 6],
        [26, 13, 10, 7, 1, 11, 8, 18, 10, 5],
        [26, 13, 10, 7, 1, 11, 8, 18, 10, 24],
    ];
    assert_eq!(paths, expected, "sequences");
    println!("beam: the best of {BEAMS} sequences is {:?}", paths[0]);
    Ok(())
}
