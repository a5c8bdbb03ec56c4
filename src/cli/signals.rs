//! Ctrl-C and SIGTERM: the first ends the run in good order, the second ends the process at once.

use std::sync::Arc;

use crate::clock::{SECOND, Timer, now_ns};
use crate::driver::Control;
use crate::s3::credentials::CredentialSource;

/// Listens on a thread of its own for as long as the process lives; also renews temporary credentials there, off the
/// measured path.
pub fn listen(control: Arc<Control>, credentials: Vec<CredentialSource>) {
    let listening = move || -> std::io::Result<()> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async {
            use tokio::signal::unix::{SignalKind, signal};
            let (mut interrupt, mut terminate) = (signal(SignalKind::interrupt())?, signal(SignalKind::terminate())?);
            let mut timer = Timer::new()?;
            loop {
                let signalled = tokio::select! {
                    _ = interrupt.recv() => true,
                    _ = terminate.recv() => true,
                    result = timer.until(now_ns() + 20 * SECOND) => { result?; false }
                };
                if signalled {
                    if control.stopped_at().is_some() {
                        eprintln!("plimsoll: stopped at once; `plimsoll clean RUN` removes what is left in the store");
                        std::process::exit(130);
                    }
                    control.stop();
                    eprintln!("\nstopping; results are kept (press Ctrl-C again to stop at once)");
                }
                for source in &credentials {
                    if source.renewal_due_in_s().is_some_and(|due| due <= 0)
                        && let Err(error) = source.renew().await
                    {
                        eprintln!("plimsoll: credentials could not be renewed: {error}");
                    }
                }
            }
        })
    };
    // Without the thread a Ctrl-C still ends the process, only less politely.
    let _ = std::thread::Builder::new().name("signals".into()).spawn(listening);
}
