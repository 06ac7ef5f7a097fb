"""What readers see of the warehouse beside its tables: recent changes, consistent cuts, and exports of them."""
