"""Groups of messages: their ids, what was found of them, what people said about them."""
