//! The least a proxy can do: bytes of a client go to the application as they come, over a connection
//! of its own, and the application's bytes go to the client. Nothing is parsed.
//!
//! Like the floor it is no server for the public: it connects while all clients wait, keeps without
//! a bound what a socket does not take, and forgets it when the other end is over.

use os::epoll::{Epoll, EventBuffer, Interest};
use os::send::{recv, send};
use os::socket;
use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use crate::{DESCRIPTORS_MAX, Fate, LISTENER};

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
                    self.turn(event.key as usize);
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
                let interest = Interest::READ | Interest::WRITE | Interest::EDGE;
                self.epoll.add(socket.as_fd(), interest, key as u64)?;
                self.ends[key] = Some(End { socket, other, unsent: Vec::new() });
            }
        }
        Ok(())
    }

    /// Takes one end as far as it goes now; an end that is over ends the other.
    fn turn(&mut self, key: usize) {
        let Some(end) = &self.ends[key] else { return };
        let other = end.other;
        let fate = self.flush(key).and_then(|()| self.hand_on(key, other));
        if !matches!(fate, Ok(Fate::Open)) {
            (self.ends[key], self.ends[other]) = (None, None);
        }
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
    /// there was room for.
    fn hand_on(&mut self, key: usize, other: usize) -> io::Result<Fate> {
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
            if count < buffer.len() {
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

    /// More than sockets hold comes back whole, and the end of one connection ends the other.
    #[test]
    fn bytes_are_handed_on_both_ways() {
        let application = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = application.local_addr().expect("it is bound");
        let echo = thread::spawn(move || {
            let (mut stream, _) = application.accept().expect("the relay connects");
            let mut all = vec![0; 4 << 20];
            stream.read_exact(&mut all).expect("all of it comes");
            stream.write_all(&all).expect("it is taken");
            stream.read(&mut [0]).expect("the end comes")
        });
        let anywhere = "127.0.0.1:0".parse().expect("it is an address");
        let listener = socket::listen(anywhere, &listening(1)).expect("a port is free");
        let relay_address = socket::local_addr(listener.as_fd()).expect("it is bound");
        let relay = Relay::new(listener, address).expect("there is memory");
        thread::spawn(move || relay.serve());
        let mut stream = TcpStream::connect(relay_address).expect("it listens");
        let said: Vec<u8> = (0..4 << 20).map(|at: u32| (at % 251) as u8).collect();
        stream.write_all(&said).expect("it is taken");
        let mut back = vec![0; said.len()];
        stream.read_exact(&mut back).expect("all of it comes back");
        assert!(back == said, "other bytes came back");
        drop(stream);
        assert_eq!(echo.join().expect("it did not fail"), 0);
    }
}
