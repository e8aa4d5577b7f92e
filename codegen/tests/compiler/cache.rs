//! The compile cache under damage and under several writers.
use std::sync::Arc;

use codegen::Cache;

fn object(i: u8, len: usize) -> Arc<[u8]> {
    (0..len)
        .map(|j| i.wrapping_add(j as u8))
        .collect::<Vec<u8>>()
        .into()
}

fn key(i: u8) -> [u8; 32] {
    [i; 32]
}

fn files(dir: &std::path::Path, extension: &str) -> Vec<std::path::PathBuf> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(|e| e.unwrap().path())
        .filter(|p| p.extension().is_some_and(|e| e == extension))
        .collect()
}

#[test]
fn an_entry_survives_the_process() {
    let dir = tempfile::tempdir().unwrap();
    Cache::open(dir.path(), 1 << 20)
        .unwrap()
        .put(&key(1), &object(1, 100));
    let again = Cache::open(dir.path(), 1 << 20).unwrap();
    assert_eq!(again.get(&key(1)).unwrap(), object(1, 100));
    assert!(again.get(&key(2)).is_none());
}

#[test]
fn damage_is_a_miss_and_is_removed() {
    let whole = {
        let dir = tempfile::tempdir().unwrap();
        Cache::open(dir.path(), 1 << 20)
            .unwrap()
            .put(&key(1), &object(1, 64));
        std::fs::read(&files(dir.path(), "o")[0]).unwrap()
    };
    let mut damaged: Vec<Vec<u8>> = (0..whole.len()).map(|n| whole[..n].to_vec()).collect();
    for i in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[i] ^= 0x10;
        damaged.push(bytes);
    }
    damaged.push([whole.clone(), vec![0]].concat());
    let dir = tempfile::tempdir().unwrap();
    let name = {
        let cache = Cache::open(dir.path(), 1 << 20).unwrap();
        cache.put(&key(1), &object(1, 64));
        files(dir.path(), "o")[0].clone()
    };
    for bytes in damaged {
        std::fs::write(&name, &bytes).unwrap();
        let cache = Cache::open(dir.path(), 1 << 20).unwrap();
        assert!(cache.get(&key(1)).is_none());
        assert!(!name.exists());
    }
    // An entry under the name of another key is damage too.
    std::fs::write(dir.path().join("02".repeat(32) + ".o"), &whole).unwrap();
    assert!(
        Cache::open(dir.path(), 1 << 20)
            .unwrap()
            .get(&key(2))
            .is_none()
    );
}

#[test]
fn the_size_is_kept_below_the_limit_and_the_last_used_stay() {
    let dir = tempfile::tempdir().unwrap();
    let cache = Cache::open(dir.path(), 20_000).unwrap();
    for i in 0..60 {
        cache.put(&key(i), &object(i, 1000));
        let old =
            std::time::SystemTime::now() - std::time::Duration::from_secs(1000 - u64::from(i));
        for path in files(dir.path(), "o") {
            if path
                .file_name()
                .unwrap()
                .to_str()
                .unwrap()
                .starts_with(&format!("{i:02x}"))
            {
                std::fs::File::options()
                    .append(true)
                    .open(&path)
                    .unwrap()
                    .set_modified(old)
                    .unwrap();
            }
        }
    }
    drop(cache);
    let cache = Cache::open(dir.path(), 20_000).unwrap();
    let total: u64 = files(dir.path(), "o")
        .iter()
        .map(|p| p.metadata().unwrap().len())
        .sum();
    assert!(total <= 20_000, "{total}");
    assert!(cache.get(&key(59)).is_some());
    assert!(cache.get(&key(0)).is_none());
}

#[test]
fn many_writers_leave_whole_entries() {
    let dir = tempfile::tempdir().unwrap();
    std::thread::scope(|s| {
        for t in 0..8u8 {
            let path = dir.path();
            s.spawn(move || {
                let cache = Cache::open(path, 1 << 20).unwrap();
                for round in 0..40u8 {
                    let i = (t + round) % 10;
                    cache.put(&key(i), &object(i, 5000));
                    let fresh = Cache::open(path, 1 << 20).unwrap();
                    if let Some(found) = fresh.get(&key(i)) {
                        assert_eq!(found, object(i, 5000));
                    }
                }
            });
        }
    });
    assert!(files(dir.path(), "tmp").is_empty());
}

#[test]
#[ignore = "the child process of a_writer_that_is_killed_does_no_harm; it never ends"]
fn writer_process() {
    let dir = std::env::var_os("CACHE_TEST_DIR").unwrap();
    loop {
        let cache = Cache::open(&dir, 1 << 30).unwrap();
        for i in 0..10 {
            cache.put(&key(i), &object(i, 200_000));
        }
    }
}

#[test]
fn a_writer_that_is_killed_does_no_harm() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..5 {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--ignored", "--exact", "cache::writer_process"])
            .env("CACHE_TEST_DIR", dir.path())
            .stdout(std::process::Stdio::null())
            .spawn()
            .unwrap();
        // Killed once it has written something.
        for _ in 0..2000 {
            if files(dir.path(), "o").len() == 10 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(2));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let cache = Cache::open(dir.path(), 1 << 30).unwrap();
        for i in 0..10 {
            assert_eq!(cache.get(&key(i)).unwrap(), object(i, 200_000));
        }
    }
}

/// A good entry in a good folder; what another user could do to it.
#[test]
fn code_that_others_could_have_written_is_not_run() {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
    let mode = |path: &std::path::Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let outer = tempfile::tempdir().unwrap();
    let (dir, copy) = (outer.path().join("kernels"), outer.path().join("copy"));
    let found = |dir: &std::path::Path| Cache::open(dir, 1 << 20).map(|c| c.get(&key(1)));
    Cache::open(&dir, 1 << 20)
        .unwrap()
        .put(&key(1), &object(1, 64));
    let entry = files(&dir, "o")[0].clone();
    std::fs::copy(&entry, &copy).unwrap();

    let link = outer.path().join("link");
    symlink(&dir, &link).unwrap();
    assert!(found(&link).is_err());

    mode(&dir, 0o777);
    assert_eq!(found(&dir).unwrap(), Some(object(1, 64)));
    assert_eq!(dir.metadata().unwrap().mode() & 0o777, 0o700);

    mode(&entry, 0o620);
    assert_eq!(found(&dir).unwrap(), None, "writable by the group");
    symlink(&copy, &entry).unwrap();
    assert_eq!(found(&dir).unwrap(), None, "a link");
    std::fs::hard_link(&copy, &entry).unwrap();
    assert_eq!(found(&dir).unwrap(), None, "a file with another name");
    assert!(copy.exists() && !entry.exists());

    if nix::unistd::geteuid().is_root() {
        let stranger = Some(nix::unistd::Uid::from_raw(1234));
        std::fs::copy(&copy, &entry).unwrap();
        nix::unistd::chown(&entry, stranger, None).unwrap();
        assert_eq!(found(&dir).unwrap(), None, "a file of another user");
        nix::unistd::chown(&dir, stranger, None).unwrap();
        assert!(found(&dir).is_err());
    } else {
        println!("files of other users: not tried, chown needs root");
    }
}
