"""Applications as users of these frameworks write them; the tests run them as processes of their own."""
