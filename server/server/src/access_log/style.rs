//! What workers write into the access log, which may change while they work: one number, which all
//! of them see, those in other processes as well.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::config::{AccessForm, LogSettings};

/// The form of lines, and the size of workers' buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Style {
    pub(crate) form: AccessForm,
    pub(crate) buffer_bytes: usize,
}

/// The style in use. A cell with 0 says that the log is off.
#[derive(Clone, Copy)]
pub(crate) struct StyleCell<'c>(&'c AtomicU64);

impl Default for Style {
    /// Nothing is written.
    fn default() -> Self {
        Self { form: AccessForm::Off, buffer_bytes: 0 }
    }
}

impl Style {
    pub(crate) fn of(settings: &LogSettings) -> Self {
        Self { form: settings.access, buffer_bytes: settings.buffer_bytes as usize }
    }
}

impl<'c> StyleCell<'c> {
    const FORM_BITS: u32 = 2;

    pub(crate) fn new(cell: &'c AtomicU64) -> Self {
        Self(cell)
    }

    pub(crate) fn set(self, style: Style) {
        let form = match style.form {
            AccessForm::Off => 0,
            AccessForm::Combined => 1,
            AccessForm::Json => 2,
        };
        let number = (style.buffer_bytes as u64) << Self::FORM_BITS | form;
        self.0.store(number, Ordering::Release);
    }

    pub(crate) fn get(self) -> Style {
        let number = self.0.load(Ordering::Acquire);
        let form = match number & ((1 << Self::FORM_BITS) - 1) {
            1 => AccessForm::Combined,
            2 => AccessForm::Json,
            _ => AccessForm::Off,
        };
        Style { form, buffer_bytes: (number >> Self::FORM_BITS) as usize }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_style_is_read_as_it_was_set() {
        let number = AtomicU64::new(0);
        let cell = StyleCell::new(&number);
        assert_eq!(cell.get(), Style::default());
        for form in [AccessForm::Json, AccessForm::Combined, AccessForm::Off] {
            for buffer_bytes in [1, 16 << 10, 1 << 40] {
                let style = Style { form, buffer_bytes };
                cell.set(style);
                assert_eq!(cell.get(), style);
            }
        }
    }
}
