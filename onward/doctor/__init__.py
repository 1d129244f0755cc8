"""`onward doctor`: looks at everything that Onward stands on, and says what is wrong with it."""
