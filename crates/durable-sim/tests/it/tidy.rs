//! Promise: no test file is forgotten. Oracle: the folder itself.

use std::path::Path;

use durable::{Fs as _, RealFs, read_all};

#[test]
fn every_file_beside_main_is_one_of_its_modules() {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it");
    let main = read_all(&RealFs, &dir.join("main.rs"), 1 << 20).unwrap();
    let main = String::from_utf8(main).unwrap();
    for path in RealFs.read_dir(&dir).unwrap() {
        let stem = path.file_stem().unwrap().to_str().unwrap();
        assert!(
            stem == "main" || main.contains(&format!("mod {stem};")),
            "{stem}"
        );
    }
}
