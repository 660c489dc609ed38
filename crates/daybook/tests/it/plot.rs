//! Studies as pictures, and two studies side by side.

use crate::support::Scratch;

/// A tuned study of two parameters, with intermediate values.
fn tuned(scratch: &Scratch, path: &str, seed: &str, trials: &str) {
    let script = r#"awk -v x="$DAYBOOK_PARAM_X" 'BEGIN { for (i = 1; i < 4; i++)
        printf "{\"step\":%d,\"loss\":%.6f}\n", i, (x-0.3)*(x-0.3) + 1/i }'"#;
    let args = [
        "tune",
        path,
        "--minimize",
        "loss",
        "--param",
        "x=float(0,1)",
        "--param",
        "opt=cat(adam,sgd)",
        "--sampler",
        "random",
        "--scheduler",
        "none",
        "--seed",
        seed,
        "--trials",
        trials,
        "--runs",
        path.trim_end_matches(".atj"),
        "-q",
        "--",
        "sh",
        "-c",
        script,
    ];
    scratch.daybook(&args).expect(0);
}

#[test]
fn a_study_is_drawn_as_svg_png_and_as_a_page_without_a_font_of_the_system() {
    let scratch = Scratch::new();
    tuned(&scratch, "study.atj", "1", "6");
    let plot = |args: &[&str]| {
        let all = [&["study", "plot", "study.atj"], args].concat();
        // No fontconfig, no home: the letters come from the program.
        let mut command = scratch.command(&all);
        command.env_clear();
        crate::support::Ran::from(command.output().unwrap())
    };
    plot(&["-o", "history.svg"]).expect(0);
    let svg = String::from_utf8(scratch.read("history.svg")).unwrap();
    assert!(
        svg.starts_with("<svg") && svg.contains("study: loss"),
        "{svg}"
    );
    // One circle for every trial.
    assert_eq!(svg.matches("<circle").count(), 6);

    plot(&[
        "-o",
        "slice.png",
        "--chart",
        "slice",
        "--chart",
        "contour",
        "--width",
        "640",
    ])
    .expect(0);
    let image = scratch.read("slice.png");
    let decoder = png::Decoder::new(std::io::Cursor::new(image));
    let reader = decoder.read_info().unwrap();
    let info = reader.info();
    assert_eq!((info.width, info.height), (640, 2 * 540));

    plot(&["-o", "study.html"]).expect(0);
    let page = String::from_utf8(scratch.read("study.html")).unwrap();
    for chart in [
        "history",
        "intermediate-values",
        "parallel-coordinates",
        "slices",
        "importance",
        "contour",
        "timeline",
    ] {
        assert!(
            page.contains(&format!("<section id=\"{chart}\">")),
            "{chart}"
        );
    }
    assert!(!page.contains("pareto"));
    // Nothing is fetched: the only addresses name the language of the pictures.
    assert_eq!(
        page.matches("http").count(),
        page.matches("xmlns=\"http").count()
    );
    assert!(page.contains("adam") && page.contains("sgd"));
}

#[test]
fn what_cannot_be_drawn_is_refused_by_name() {
    let scratch = Scratch::new();
    scratch
        .daybook(&["study", "create", "study.atj", "--minimize", "loss"])
        .expect(0);
    let refused = |args: &[&str]| {
        let all = [&["study", "plot", "study.atj"], args].concat();
        scratch.daybook(&all).expect(2).err
    };
    assert!(refused(&["-o", "study.gif"]).contains(".svg, .png or .html"));
    assert!(refused(&["-o", "study.atj"]).contains("names no kind of picture"));
    assert!(
        refused(&["-o", "x.svg", "--params", "lr"]).contains("no trial has a parameter \"lr\"")
    );
    assert!(
        refused(&[
            "-o", "x.png", "--width", "8000", "--height", "8000", "--chart", "slice", "--chart",
            "history"
        ])
        .contains("too large")
    );
    // A study without trials is a picture that says so, and a picture is not replaced by chance.
    scratch
        .daybook(&["study", "plot", "study.atj", "-o", "x.svg"])
        .expect(0);
    let svg = String::from_utf8(scratch.read("x.svg")).unwrap();
    assert!(svg.contains("no trial is complete yet"), "{svg}");
    assert!(refused(&["-o", "x.svg"]).contains("--force"));
}

#[test]
fn two_studies_are_compared_by_what_they_reached_when() {
    let scratch = Scratch::new();
    tuned(&scratch, "a.atj", "1", "12");
    tuned(&scratch, "b.atj", "2", "10");
    let compared = scratch
        .daybook(&["study", "compare", "a.atj", "b.atj", "--json"])
        .expect(0)
        .json();
    assert_eq!(compared["studies"][0]["trials"], 12);
    let objective = &compared["objectives"][0];
    assert_eq!(objective["name"], "loss");
    let best = |at: usize| {
        objective["studies"][at]["best"]["values"][0]
            .as_f64()
            .unwrap()
    };
    let reached = |at: usize| objective["studies"][at]["reached_the_others_best_after"].as_u64();
    // The better one reached the other's best, at its own best trial or earlier; the worse one never did.
    let (better, worse) = if best(0) < best(1) { (0, 1) } else { (1, 0) };
    let number = objective["studies"][better]["best"]["number"]
        .as_u64()
        .unwrap();
    assert!(reached(better).unwrap() <= number + 1);
    assert_eq!(reached(worse), None);
    assert_eq!(
        objective["studies"][1]["after"].as_array().unwrap().len(),
        1
    );
    let words = scratch
        .daybook(&["study", "compare", "a.atj", "b.atj"])
        .expect(0)
        .out;
    assert!(
        words.contains("12 trials") && words.contains("never"),
        "{words}"
    );

    scratch
        .daybook(&["study", "create", "c.atj", "--maximize", "loss"])
        .expect(0);
    let told = scratch
        .daybook(&["study", "compare", "a.atj", "c.atj"])
        .expect(2)
        .err;
    assert!(told.contains("minimize loss, and maximize loss"), "{told}");
}

#[test]
fn the_parameter_that_decides_has_the_largest_share() {
    let scratch = Scratch::new();
    tuned(&scratch, "study.atj", "3", "24");
    for method in ["fanova", "variance"] {
        let args = [
            "study",
            "importance",
            "study.atj",
            "--method",
            method,
            "--json",
        ];
        let found = scratch.daybook(&args).expect(0).json();
        let shares = &found["objectives"][0]["importance"];
        assert_eq!(shares[0]["param"], "x", "{method}: {shares}");
        assert!(
            shares[0]["share"].as_f64().unwrap() > 0.6,
            "{method}: {shares}"
        );
    }
    let words = scratch
        .daybook(&["study", "importance", "study.atj"])
        .expect(0)
        .out;
    assert!(words.contains("opt") && words.contains('█'), "{words}");
    let args = ["study", "importance", "study.atj", "--objective", "speed"];
    assert!(scratch.daybook(&args).expect(2).err.contains("it has loss"));
}
