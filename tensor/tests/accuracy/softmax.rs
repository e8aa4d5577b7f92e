//! Shares of a sum of powers of e, also the small ones.

use tensor::Tensor;

use super::functions::engine;

#[test]
fn small_shares_have_their_digits() {
    let e = engine();
    let rows: Vec<f32> = (1..8000).flat_map(|i| [0.0, -0.0109 * i as f32]).collect();
    let n = rows.len() / 2;
    let x = Tensor::from_slice(&e, &rows, &[n, 2]).unwrap();
    let got: Vec<f32> = x.softmax(1).unwrap().to_vec().unwrap();
    let mut worst = (0.0, 0.0);
    for (got, x) in got.chunks(2).zip(rows.chunks(2)) {
        let power = f64::from(x[1]).exp();
        let want = power / (1.0 + power);
        let error = (f64::from(got[1]) - want).abs() / want;
        // Below the normal numbers there are fewer digits.
        if want > 1.2e-38 && error > worst.0 {
            worst = (error, x[1]);
        }
    }
    println!("softmax: relative error {:e} at {}", worst.0, worst.1);
    assert!(
        worst.0 <= 4.0 * 2f64.powi(-24),
        "{:e} at {}",
        worst.0,
        worst.1
    );
}
