//! Sums, products and running ones of integers: as in PyTorch they are counted in `i64`.

use super::support;
use tensor::{DType, Element, Engine, Tensor};

fn list<T: Element>(e: &Engine, x: &[T]) -> Tensor {
    Tensor::from_slice(e, x, &[x.len()]).unwrap()
}

fn longs(x: &Tensor) -> Vec<i64> {
    x.to_vec().unwrap()
}

#[test]
fn sums_do_not_wrap_in_the_type_of_their_elements() {
    for e in [Engine::reference(), support::engine()] {
        let x = list(&e, &[i32::MAX, i32::MAX, 2]);
        let most = i64::from(i32::MAX);
        assert_eq!(longs(&x.sum(&[], false).unwrap()), [2 * most + 2]);
        assert_eq!(longs(&x.prod(&[], false).unwrap()), [2 * most * most]);
        assert_eq!(longs(&x.cumsum(0).unwrap()), [most, 2 * most, 2 * most + 2]);
        assert_eq!(
            longs(&x.cumprod(0).unwrap()),
            [most, most * most, 2 * most * most]
        );
        let many = Tensor::full(&e, &[3000], i32::MAX, DType::I32).unwrap();
        let many = many.contiguous().unwrap();
        assert_eq!(longs(&many.sum(&[], false).unwrap()), [3000 * most]);
        let small = list(&e, &[-100i8, -100]);
        assert_eq!(longs(&small.cumsum(0).unwrap()), [-100, -200]);
        let large = list(&e, &[u32::MAX, u32::MAX]);
        assert_eq!(
            longs(&large.sum(&[], false).unwrap()),
            [2 * i64::from(u32::MAX)]
        );
    }
}

#[test]
fn results_of_integers_are_i64() {
    let e = Engine::reference();
    let results = |x: &Tensor| {
        [
            x.sum(&[], false).unwrap().dtype(),
            x.prod(&[], false).unwrap().dtype(),
            x.cumsum(0).unwrap().dtype(),
            x.cumprod(0).unwrap().dtype(),
        ]
    };
    let narrow = [DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64];
    let unsigned = [DType::U8, DType::U16, DType::U32];
    for dtype in narrow.into_iter().chain(unsigned) {
        let x = Tensor::ones(&e, &[2], dtype).unwrap();
        assert_eq!(results(&x), [DType::I64; 4], "{dtype}");
        assert_eq!(x.count_nonzero(&[], false).unwrap().dtype(), DType::I64);
    }
    // What i64 cannot hold stays.
    let x = Tensor::ones(&e, &[2], DType::U64).unwrap();
    assert_eq!(results(&x), [DType::U64; 4]);
    // In another type if that is asked for.
    let x = list(&e, &[i32::MAX, 1]);
    let sum = x.sum_in(DType::I32, &[], false).unwrap();
    assert_eq!(sum.item::<i32>().unwrap(), i32::MIN);
}

#[test]
fn positions_and_places_stay_i32() {
    let e = support::engine();
    let x = list(&e, &[1.0f32, 3.0, 7.0]);
    assert_eq!(x.argmax(0, false).unwrap().dtype(), DType::I32);
    assert_eq!(x.argsort(0, true).unwrap().dtype(), DType::I32);
    let places = x
        .searchsorted(&list(&e, &[0.0f32, 3.0, 9.0]), true)
        .unwrap();
    assert_eq!(places.to_vec::<i32>().unwrap(), [0, 2, 3]);
}
