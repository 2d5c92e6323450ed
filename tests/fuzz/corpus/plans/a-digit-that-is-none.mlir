kernel.plan @p {
  width ₂ src 64 dst 64
}
