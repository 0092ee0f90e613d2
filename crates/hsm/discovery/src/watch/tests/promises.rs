//! What is promised in seconds. The clock stands still unless everybody waits, so these are times of the design and not of the
//! machine.

use super::*;

#[tokio::test(start_paused = true)]
async fn f29_with_events_a_token_is_seen_within_a_second() {
    let (source, mut opened) = told();
    let mut stage = Stage::new(source).await;
    let kernel = opened.recv().await.unwrap();
    // Also right after another look.
    for number in [20, 21, 22] {
        stage.tree.plug(Plug { number, ..PICO });
        kernel.send(usb()).unwrap();
        let took = stage.until_at(&format!("/dev/bus/usb/001/{number:03}")).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
        stage.tree.unplug(Plug { number, ..PICO });
        kernel.send(usb()).unwrap();
        let gone = |picture: &Picture| picture.devices.iter().all(|device| !device.available);
        let took = stage.until(gone).await;
        assert!(took < Duration::from_secs(1), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn f30_without_events_a_token_is_seen_within_two_seconds() {
    let mut stage = Stage::new(Silence).await;
    stage.tree.plug(PICO);
    let took = stage.until_at(PATH).await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
    stage.tree.unplug(PICO);
    let took = stage.until(|picture| !picture.devices[0].available).await;
    assert!(took <= Duration::from_secs(2), "{took:?}");
}
