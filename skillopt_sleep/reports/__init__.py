"""Pure renderers: values in, text out."""
