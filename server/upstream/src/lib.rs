//! Requests that applications answer, from the side of a client, without input or output.
//!
//! A [`Call`] is one request to an application. It is a state machine, like the session it belongs
//! to: [`Call::next`] returns the next operation of the application's socket, and the driver
//! performs it and reports the result. The other end of a call, at which the request comes in and
//! the reply goes out, is a [`Downstream`]: it carries payload and never framing, so that it may be
//! a stream of any protocol.
//!
//! [`Balance`] chooses a server of an [`Application`], and leaves out those that fail, or that a
//! [`Check`] of their [`Health`] has found to be down. Messages are read by `http1`, on this side
//! as on the other: there is no second reading that could differ.

#![forbid(unsafe_code)]

mod application;
mod balance;
mod call;
mod cgi;
mod conversation;
mod downstream;
mod facilities;
mod failure;
mod fastcgi;
mod fields;
mod findings;
mod health;
mod http;
mod origin;
mod outgoing;
mod script;
mod settings;
mod tick;
mod trailers;
mod upgrade;

pub use application::{Application, Finishing};
pub use balance::{Balance, ClientKey, Tried};
pub use call::{Call, Next};
pub use cgi::{Refusal, START_BYTES_MAX, StartProgram};
pub use downstream::{Body, Downstream, Length, Nobody};
pub use facilities::{Facilities, OpenSpool, ReportDiagnostic, SpoolFile, Spooled, StartPrograms};
pub use failure::Failure;
pub use fastcgi::RecordError;
pub use fields::ReplyFields;
pub use health::{Check, CheckFailure, Health};
pub use origin::Origin;
pub use script::{Diagnostic, Diagnostics, ScriptRequest};
pub use settings::{
    Address, ApplicationSettings, Balancing, CallLimits, FastCgiSettings, HealthSettings, Protocol,
    ServerSettings,
};
pub use tick::Tick;
