"""Workers, a broker and servers that take turns in any order, with the product's own core between them."""
