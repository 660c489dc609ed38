//! What is asked of a loop is done at a tick, and recorded there with who asked.

use omniloop_control::{HaltPolicy, Standing};
use omniloop_core::journal::FrameKind;
use serde_json::json;

use crate::attended::{Attended, outline};

fn me() -> String {
    format!("uid:{}", rustix::process::geteuid().as_raw())
}

#[test]
fn a_halted_loop_goes_on_for_the_steps_that_it_is_given_and_then_until_it_is_resumed() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut client = run.client();
    assert_eq!(run.tick(1), Standing::Going);
    let halt = json!({"command": "halt", "reason": "odd", "correlation_id": "c-1"});
    let answer = run.ask(&mut client, &halt);
    assert_eq!(
        (&answer["ok"], &answer["state"], &answer["tick"]),
        (&json!(true), &json!("halted"), &json!(1))
    );
    assert_eq!(run.turn(), Standing::Halted("odd".into()));
    let answer = run.ask(&mut client, &json!({"command": "step", "count": 2}));
    assert_eq!(answer["until_tick"], 3);
    assert_eq!(run.turn(), Standing::Going);
    assert_eq!(run.tick(2), Standing::Going);
    assert_eq!(run.tick(3), Standing::Halted("odd".into()));
    run.ask(&mut client, &json!({"command": "resume"}));
    assert_eq!(run.tick(4), Standing::Going);
    let refused = run.ask(&mut client, &json!({"command": "step"}));
    assert_eq!(refused["error"], "not_halted");

    let records = run.records();
    assert_eq!(
        outline(&records),
        [
            "1 input halt",
            "1 control halt",
            "1 input step",
            "1 control step",
            "3 input resume",
            "3 control resume",
            "4 control refused",
        ]
    );
    let (_, _, input) = &records[0];
    assert_eq!(input["channel"], "control");
    assert_eq!(input["correlation_id"], "c-1");
    assert_eq!(input["principal"], me());
    assert_eq!(input["pid"], std::process::id());
    let (_, _, control) = &records[1];
    assert_eq!(control["reason"], "odd");
    assert_eq!(
        (&control["correlation_id"], &control["principal"]),
        (&json!("c-1"), &json!(me()))
    );
    assert_eq!(records[6].2["request"]["command"], "step");
}

#[test]
fn a_change_within_its_limits_is_an_input_and_a_mutation() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut client = run.client();
    run.tick(1);
    let answer = run.ask(
        &mut client,
        &json!({"command": "set", "name": "lr", "value": 0.5}),
    );
    assert_eq!(
        (&answer["old"], &answer["applied"]),
        (&json!(0.1), &json!(0.5))
    );
    assert_eq!(answer["limited"], false);
    assert_eq!(*run.set.borrow(), [("lr".to_owned(), json!(0.5))]);
    let records = run.records();
    assert_eq!(outline(&records), ["1 input set", "1 mutation "]);
    let mutation = &records[1].2;
    assert_eq!(
        *mutation,
        json!({
            "name": "lr", "old": 0.1, "new": 0.5, "source": "control",
            "correlation_id": answer["correlation_id"], "principal": me(),
        })
    );
}

#[test]
fn a_change_beyond_a_limit_is_brought_to_it_and_the_guardrail_recorded() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut client = run.client();
    run.tick(1);
    let answer = run.ask(
        &mut client,
        &json!({"command": "set", "name": "lr", "value": 7}),
    );
    assert_eq!(
        (&answer["applied"], &answer["limited"]),
        (&json!(1), &json!(true))
    );
    for (name, value, error) in [
        ("lr", json!("fast"), "bad_value"),
        ("lr", json!("NaN"), "bad_value"),
        ("lr", json!(null), "bad_value"),
        ("loss", json!(1), "unknown_name"),
    ] {
        let set = json!({"command": "set", "name": name, "value": value});
        assert_eq!(run.ask(&mut client, &set)["error"], error, "{set}");
    }
    assert_eq!(*run.set.borrow(), [("lr".to_owned(), json!(1))]);
    let records = run.records();
    let outline = outline(&records);
    assert_eq!(outline[..3], ["1 input set", "1 guardrail ", "1 mutation "]);
    assert_eq!(outline[3..], ["1 control refused"; 4]);
    assert_eq!(records[0].2["value"]["value"], 1);
    assert_eq!(records[0].2["value"]["requested"], 7);
    let guardrail = &records[1].2;
    assert_eq!(guardrail["requested"], 7);
    assert_eq!(guardrail["applied"], 1);
    assert_eq!(
        (&guardrail["min"], &guardrail["max"]),
        (&json!(0.0), &json!(1.0))
    );
    assert_eq!(guardrail["cause"], "out of bounds");
    assert_eq!(guardrail["principal"], me());
}

#[test]
fn a_watch_halts_the_loop_at_the_tick_in_which_its_condition_holds() {
    let run = Attended::new(HaltPolicy::Halt);
    let mut client = run.client();
    let watch =
        json!({"command": "watch", "name": "loss", "op": ">", "than": 10, "correlation_id": "w"});
    run.ask(&mut client, &watch);
    let bad = json!({"command": "watch", "name": "loss", "op": "not_finite", "policy": "record"});
    run.ask(&mut client, &bad);
    assert_eq!(run.tick("NaN"), Standing::Going);
    assert_eq!(run.tick(10), Standing::Going);
    assert_eq!(
        run.tick(11),
        Standing::Halted("watch of loss tripped".into())
    );
    let status = run.ask(&mut client, &json!({"command": "status"}));
    assert_eq!(status["watches"].as_array().unwrap().len(), 2);
    assert_eq!(status["reason"], "watch of loss tripped");
    let answer = run.ask(&mut client, &json!({"command": "unwatch", "name": "loss"}));
    assert_eq!(answer["taken_back"], 2);
    run.ask(&mut client, &json!({"command": "resume"}));
    assert_eq!(run.tick(1000), Standing::Going);

    let records = run.records();
    let trips: Vec<_> = records
        .iter()
        .filter(|(_, _, p)| p["command"] == "watch_trip")
        .collect();
    assert_eq!(trips.len(), 2);
    assert_eq!((trips[0].1, &trips[0].2["value"]), (1, &json!("NaN")));
    let (kind, tick, trip) = trips[1];
    assert_eq!((*kind, *tick), (FrameKind::Control, 3));
    assert_eq!(
        (&trip["value"], &trip["correlation_id"]),
        (&json!(11), &json!("w"))
    );
}

#[test]
fn the_loss_of_the_last_controller_means_what_the_policy_says() {
    for (policy, before, after) in [
        (HaltPolicy::Continue, "halt", Standing::Going),
        (HaltPolicy::Continue, "", Standing::Going),
        (
            HaltPolicy::Halt,
            "",
            Standing::Halted("its controller was lost".into()),
        ),
        (
            HaltPolicy::Exit,
            "",
            Standing::Leaving("its controller was lost".into()),
        ),
        (
            HaltPolicy::Exit,
            "halt",
            Standing::Leaving("its controller was lost".into()),
        ),
    ] {
        let run = Attended::new(policy);
        let mut first = run.client();
        let mut last = run.client();
        for client in [&mut first, &mut last] {
            assert_eq!(run.ask(client, &json!({"command": "attend"}))["ok"], true);
        }
        if before == "halt" {
            run.ask(&mut last, &json!({"command": "halt"}));
        }
        let standing = run.turn();
        drop(first);
        let controllers = || {
            let status = run.ask(&mut run.client(), &json!({"command": "status"}));
            status["controllers"].as_u64().unwrap()
        };
        run.until(|_| controllers() == 1);
        assert_eq!(run.turn(), standing, "one is left");
        drop(last);
        run.until(|_| controllers() == 0);
        assert_eq!(run.turn(), after, "{policy:?}");
        let records = run.records();
        let lost = records
            .iter()
            .filter(|(_, _, p)| p["command"] == "controller_lost");
        assert_eq!(lost.count(), 2);
    }
}

#[test]
fn a_controller_that_leaves_and_a_client_that_only_asked_change_nothing() {
    let run = Attended::new(HaltPolicy::Exit);
    let mut controller = run.client();
    run.ask(&mut controller, &json!({"command": "attend"}));
    let again = run.ask(&mut controller, &json!({"command": "attend"}));
    assert_eq!(again["error"], "bad_request");
    run.ask(&mut controller, &json!({"command": "leave"}));
    drop(controller);
    let mut passer_by = run.client();
    run.ask(&mut passer_by, &json!({"command": "halt"}));
    drop(passer_by);
    let status = run.ask(&mut run.client(), &json!({"command": "status"}));
    assert_eq!(
        (&status["controllers"], &status["state"]),
        (&json!(0), &json!("halted"))
    );
    assert_eq!(
        outline(&run.records()),
        [
            "0 input attend",
            "0 control attend",
            "0 input leave",
            "0 control leave",
            "0 input halt",
            "0 control halt",
        ]
    );
}

#[test]
fn a_change_that_the_loop_does_not_take_is_refused_and_changes_nothing() {
    let run = Attended::new(HaltPolicy::Halt);
    let set = json!({"command": "set", "name": "lr", "value": 0.5});
    let socket = run.socket();
    let answer = std::thread::scope(|scope| {
        let asked = scope.spawn(|| run_client(&socket, &set));
        while !asked.is_finished() {
            let refuse = &mut |_: omniloop_control::Order<'_>| Err("not now".to_owned());
            drop(run.control.turn(run.recorder(), refuse).unwrap());
            std::thread::yield_now();
        }
        asked.join().unwrap()
    });
    assert_eq!(
        (&answer["error"], &answer["message"]),
        (&json!("undeliverable"), &json!("not now"))
    );
    let status = run.ask(&mut run.client(), &json!({"command": "status"}));
    assert_eq!(status["params"]["lr"]["value"], 0.1);
    assert_eq!(
        outline(&run.records()),
        [
            "0 input set",
            "0 mutation ",
            "0 mutation ",
            "0 control refused"
        ]
    );
}

fn run_client(socket: &std::path::Path, request: &serde_json::Value) -> serde_json::Value {
    let mut client = omniloop_control::Client::connect(socket, None).unwrap();
    client.ask(request).unwrap()
}

#[test]
fn whoever_waits_when_the_run_ends_is_told_so() {
    let mut run = Attended::new(HaltPolicy::Halt);
    let (socket, server) = (run.socket(), run.server.take().unwrap());
    let mut client = run.client();
    let answer = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| run_client(&socket, &json!({"command": "halt"})));
        // Once it is seen to wait: a request changes what a waiting loop looks at.
        run.control.wait(0, std::time::Duration::from_secs(30));
        server.close();
        waiting.join().unwrap()
    });
    assert_eq!(answer["error"], "ended");
    assert!(client.ask(&json!({"command": "status"})).is_err());
    assert!(!socket.exists());
}
