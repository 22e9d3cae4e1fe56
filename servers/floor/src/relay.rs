//! The least a proxy can do: bytes of a client go to the application as they come, over a
//! connection of its own, and the application's bytes go to the client. Nothing is parsed.
//!
//! Like the floor it is no server for the public: it connects while all clients wait, and keeps
//! without a bound what a socket does not take.

use os::epoll::{Epoll, EventBuffer, Interest};
use os::send::{recv, send};
use os::socket;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::{DESCRIPTORS_MAX, EVENTS, Fate, LISTENER};

/// The most bytes that are received at once.
const BUFFER_BYTES: usize = 65_536;

pub(crate) struct Relay {
    epoll: Epoll,
    listener: OwnedFd,
    application: SocketAddr,
    /// The ends of all connections, by descriptor.
    ends: Vec<Option<End>>,
    buffer: Box<[u8]>,
}

/// One end: a client's connection or that to the application.
struct End {
    socket: OwnedFd,
    /// The descriptor of the other end.
    other: usize,
    /// What this socket has not taken yet.
    unsent: Vec<u8>,
    /// Whether the other end is over, so that this one is when it has sent everything.
    is_last: bool,
}

impl Relay {
    pub(crate) fn new(listener: OwnedFd, application: SocketAddr) -> io::Result<Self> {
        Ok(Self {
            epoll: Epoll::new()?,
            listener,
            application,
            ends: (0..DESCRIPTORS_MAX).map(|_| None).collect(),
            buffer: vec![0; BUFFER_BYTES].into(),
        })
    }

    pub(crate) fn serve(mut self) -> io::Result<()> {
        let mut events = EventBuffer::with_capacity(512);
        self.epoll.add(self.listener.as_fd(), Interest::READ, LISTENER)?;
        loop {
            self.epoll.wait(&mut events, None)?;
            for event in events.iter() {
                if event.key == LISTENER {
                    self.accept()?;
                } else {
                    self.turn(event.key as usize, event.hangup);
                }
            }
        }
    }

    /// Accepts the waiting connections, each with one to the application.
    fn accept(&mut self) -> io::Result<()> {
        while let Ok((client, _)) = socket::accept(self.listener.as_fd()) {
            let application = TcpStream::connect(self.application)?;
            application.set_nodelay(true)?;
            application.set_nonblocking(true)?;
            let sockets = [client, OwnedFd::from(application)];
            let [client, application] = sockets.each_ref().map(|it| it.as_raw_fd() as usize);
            for (socket, other) in sockets.into_iter().zip([application, client]) {
                let key = socket.as_raw_fd() as usize;
                self.epoll.add(socket.as_fd(), EVENTS, key as u64)?;
                self.ends[key] = Some(End { socket, other, unsent: Vec::new(), is_last: false });
            }
        }
        Ok(())
    }

    /// Takes one end as far as it goes now, to its end if that has come. An end that is over ends
    /// the other as soon as that has sent everything.
    fn turn(&mut self, key: usize, has_ended: bool) {
        let Some(&End { other, is_last, .. }) = self.ends[key].as_ref() else { return };
        let fate = self.flush(key).and_then(|()| match is_last {
            true => Ok(self.fate_of_last(key)),
            false => self.hand_on(key, other, has_ended),
        });
        let is_over = match fate {
            Ok(Fate::Open) => return,
            Ok(Fate::Closed) => true,
            Err(_) => false,
        };
        self.ends[key] = None;
        match &mut self.ends[other] {
            // The number of the other end may be that of another connection by now.
            _ if is_last => {}
            Some(end) if is_over && !end.unsent.is_empty() => end.is_last = true,
            closed => *closed = None,
        }
    }

    fn fate_of_last(&self, key: usize) -> Fate {
        let is_done = self.ends[key].as_ref().is_none_or(|end| end.unsent.is_empty());
        if is_done { Fate::Closed } else { Fate::Open }
    }

    /// Sends what is left.
    fn flush(&mut self, key: usize) -> io::Result<()> {
        let Some(end) = self.ends[key].as_mut().filter(|end| !end.unsent.is_empty()) else {
            return Ok(());
        };
        let sent = sent(send(end.socket.as_fd(), &end.unsent, false))?;
        end.unsent.drain(..sent);
        Ok(())
    }

    /// Receives from one end and sends to the other. An edge is over when fewer bytes came than
    /// there was room for, unless the end of the stream came with them.
    fn hand_on(&mut self, key: usize, other: usize, has_ended: bool) -> io::Result<Fate> {
        loop {
            let (Some(end), buffer) = (&self.ends[key], &mut self.buffer) else {
                return Ok(Fate::Closed);
            };
            let count = match recv(end.socket.as_fd(), buffer) {
                Ok(0) => return Ok(Fate::Closed),
                Ok(count) => count,
                Err(why) if why.kind() == ErrorKind::WouldBlock => return Ok(Fate::Open),
                Err(why) => return Err(why),
            };
            let Some(to) = &mut self.ends[other] else { return Ok(Fate::Closed) };
            let sent = match to.unsent.is_empty() {
                true => sent(send(to.socket.as_fd(), &buffer[..count], false))?,
                false => 0,
            };
            to.unsent.extend_from_slice(&buffer[sent..count]);
            if count < buffer.len() && !has_ended {
                return Ok(Fate::Open);
            }
        }
    }
}

/// The bytes that were sent: none, where the socket is full.
fn sent(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(why) if why.kind() == ErrorKind::WouldBlock => Ok(0),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::listening;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::thread;

    /// A connection to a relay before `application`.
    fn through_relay(application: &TcpListener) -> TcpStream {
        let address = application.local_addr().expect("it is bound");
        let anywhere = "127.0.0.1:0".parse().expect("it is an address");
        let listener = socket::listen(anywhere, &listening(1)).expect("a port is free");
        let relay_address = socket::local_addr(listener.as_fd()).expect("it is bound");
        let relay = Relay::new(listener, address).expect("there is memory");
        thread::spawn(move || relay.serve());
        TcpStream::connect(relay_address).expect("it listens")
    }

    /// The end of a connection comes with its last bytes, and by no event of its own.
    #[test]
    fn an_end_that_comes_with_the_last_bytes_is_handed_on() {
        let application = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut stream = through_relay(&application);
        stream.write_all(b"?").expect("it is taken");
        let (mut end, _) = application.accept().expect("the relay connects");
        end.read_exact(&mut [0]).expect("it comes");
        send(end.as_fd(), b"!", true).expect("there is room");
        drop(end);
        let mut said = Vec::new();
        stream.read_to_end(&mut said).expect("the end comes, too");
        assert_eq!(said, b"!");
    }

    /// More than sockets hold comes back whole, and the end of one connection ends the other.
    #[test]
    fn bytes_are_handed_on_both_ways() {
        let application = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let mut stream = through_relay(&application);
        let echo = thread::spawn(move || {
            let (mut stream, _) = application.accept().expect("the relay connects");
            let mut all = vec![0; 4 << 20];
            stream.read_exact(&mut all).expect("all of it comes");
            stream.write_all(&all).expect("it is taken");
        });
        let said: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        stream.write_all(&said).expect("it is taken");
        let mut back = Vec::new();
        stream.read_to_end(&mut back).expect("the end comes behind all of it");
        assert!(back == said, "{} bytes came back", back.len());
        echo.join().expect("it did not fail");
    }
}
