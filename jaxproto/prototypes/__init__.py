"""Operations on class prototypes: numerics, losses, masks, transforms, geometry."""
