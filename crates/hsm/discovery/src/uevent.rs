//! What the kernel says when a device comes or goes: it makes a look come sooner, and nothing depends on it.

use std::io;

use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recvfrom, socket_with};
use tokio::io::Interest;
use tokio::net::UnixDatagram;

/// The group to which the kernel itself speaks. Others are those of daemons.
const KERNEL_GROUP: u32 = 1;
/// The longest message of the kernel, and some more.
const LONGEST: usize = 8192;

/// What was heard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Something of this part of the kernel has changed.
    Change {
        /// Which part, such as `usb`.
        subsystem: String,
    },
    /// There was more than we could hear: anything may have changed.
    Overrun,
}

/// Somebody who tells what the kernel says.
pub trait Events: Send + 'static {
    /// The next event. After an error nothing more comes.
    fn next(&mut self) -> impl Future<Output = io::Result<Event>> + Send;
}

/// Where events come from. It is asked again after they have ended.
pub trait Source: Send + 'static {
    /// What it opens.
    type Events: Events;

    /// Starts to listen.
    fn open(&mut self) -> io::Result<Self::Events>;
}

/// The kernel. Its events reach a pod if that is not in a user namespace of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Kernel;

/// A socket on which the kernel speaks.
#[derive(Debug)]
pub struct Netlink(UnixDatagram);

impl Source for Kernel {
    type Events = Netlink;

    fn open(&mut self) -> io::Result<Netlink> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            flags,
            Some(KOBJECT_UEVENT),
        )?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL_GROUP))?;
        // Tokio waits on any descriptor that it takes for one of its sockets. What is read from it is our own affair.
        let socket = std::os::unix::net::UnixDatagram::from(socket);
        Ok(Netlink(UnixDatagram::from_std(socket)?))
    }
}

impl Events for Netlink {
    async fn next(&mut self) -> io::Result<Event> {
        let mut buffer = [0; LONGEST];
        loop {
            let received = self.0.async_io(Interest::READABLE, || {
                let (length, _, sender) = recvfrom(&self.0, &mut buffer, RecvFlags::DONTWAIT)?;
                Ok((length, sender))
            });
            match received.await {
                Ok((length, sender)) => {
                    let sender = sender.and_then(|sender| SocketAddrNetlink::try_from(sender).ok());
                    if let Some(event) = heard(sender.map(|sender| sender.pid()), &buffer[..length]) {
                        return Ok(event);
                    }
                }
                Err(error) if Errno::from_io_error(&error) == Some(Errno::NOBUFS) => {
                    return Ok(Event::Overrun);
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// What a message means. Whoever is not the kernel has nothing to say: any process can send to such a socket.
fn heard(sender: Option<u32>, message: &[u8]) -> Option<Event> {
    if sender != Some(0) {
        return None;
    }
    let mut fields = message.split(|byte| *byte == 0);
    // The first is `<action>@<path>`; the rest are `<key>=<value>`.
    fields.next().filter(|head| head.contains(&b'@'))?;
    let subsystem = fields.find_map(|field| field.strip_prefix(b"SUBSYSTEM="))?;
    Some(Event::Change {
        subsystem: String::from_utf8_lossy(subsystem).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const MESSAGE: &[u8] =
        b"add@/devices/pci0/usb1/1-1.2\0ACTION=add\0DEVPATH=/devices/pci0/usb1/1-1.2\0SUBSYSTEM=usb\0SEQNUM=7\0";

    #[test]
    fn the_kernel_is_heard() {
        let subsystem = "usb".to_owned();
        assert_eq!(heard(Some(0), MESSAGE), Some(Event::Change { subsystem }));
    }

    #[test]
    fn others_are_not_heard() {
        assert_eq!(heard(Some(4711), MESSAGE), None);
        assert_eq!(heard(None, MESSAGE), None);
    }

    #[test]
    fn what_is_no_event_is_passed_over() {
        let others: [&[u8]; 5] = [
            b"",
            b"\0",
            b"libudev\0\xfe\xed\xca\xfe",
            b"add@/x\0ACTION=add\0",
            &[0xff; 8192],
        ];
        for message in others {
            assert_eq!(heard(Some(0), message), None, "{message:?}");
        }
    }

    /// Has the kernel say that the null device has changed, which it has not. Only root may ask for that.
    fn provoke(times: usize) -> bool {
        if !rustix::process::geteuid().is_root() {
            return false;
        }
        for _ in 0..times {
            std::fs::write("/sys/class/mem/null/uevent", "change").unwrap();
        }
        true
    }

    async fn next(netlink: &mut Netlink) -> Event {
        let next = tokio::time::timeout(Duration::from_secs(20), netlink.next());
        next.await.expect("the kernel says nothing").unwrap()
    }

    fn of_memory() -> Event {
        Event::Change {
            subsystem: "mem".to_owned(),
        }
    }

    #[tokio::test]
    async fn f29_what_the_kernel_itself_says_is_heard() {
        let mut netlink = Kernel.open().unwrap();
        if provoke(1) {
            while next(&mut netlink).await != of_memory() {}
        }
    }

    #[tokio::test]
    async fn more_than_can_be_heard_is_an_overrun_and_not_the_end() {
        let mut netlink = Kernel.open().unwrap();
        rustix::net::sockopt::set_socket_recv_buffer_size(&netlink.0, 1).unwrap();
        if provoke(64) {
            while next(&mut netlink).await != Event::Overrun {}
            provoke(1);
            while next(&mut netlink).await != of_memory() {}
        }
    }
}
