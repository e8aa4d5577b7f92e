//! [`Profile`]: `profile_tier_level`.

use crate::bits::Bits;
use crate::error::Result;

/// The profile, tier and level that a stream is said to keep. Source: H.265, 7.3.3.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// `general_profile_idc`: 1 is Main, 2 Main 10, 3 Main Still Picture, 4 the range extensions.
    pub profile: u8,
    /// `general_profile_compatibility_flag[j]` in bit j.
    pub compatible: u32,
    /// `general_tier_flag`: the High tier.
    pub is_high_tier: bool,
    /// `general_level_idc`: thirty times the level.
    pub level: u8,
    /// `general_progressive_source_flag`.
    pub is_progressive: bool,
    /// `general_interlaced_source_flag`.
    pub is_interlaced: bool,
}

impl Profile {
    pub(crate) fn parse(bits: &mut Bits<'_>, max_sub_layers_minus1: u32) -> Result<Profile> {
        bits.u(2, "general_profile_space")?;
        let is_high_tier = bits.flag("general_tier_flag")?;
        let profile = bits.u(5, "general_profile_idc")? as u8;
        let mut compatible = 0;
        for j in 0..32 {
            compatible |= bits.u(1, "general_profile_compatibility_flag")? << j;
        }
        let is_progressive = bits.flag("general_progressive_source_flag")?;
        let is_interlaced = bits.flag("general_interlaced_source_flag")?;
        bits.flag("general_non_packed_constraint_flag")?;
        bits.flag("general_frame_only_constraint_flag")?;
        // What they mean depends on the profile; none of them changes what is parsed.
        bits.skip(44, "general_reserved_zero_43bits")?;
        let level = bits.u(8, "general_level_idc")? as u8;
        Profile::skip_sub_layers(bits, max_sub_layers_minus1)?;
        Ok(Profile {
            profile,
            compatible,
            is_high_tier,
            level,
            is_progressive,
            is_interlaced,
        })
    }

    fn skip_sub_layers(bits: &mut Bits<'_>, max_sub_layers_minus1: u32) -> Result<()> {
        let mut present = Vec::new();
        for _ in 0..max_sub_layers_minus1 {
            present.push((
                bits.flag("sub_layer_profile_present_flag")?,
                bits.flag("sub_layer_level_present_flag")?,
            ));
        }
        if max_sub_layers_minus1 > 0 {
            for _ in max_sub_layers_minus1..8 {
                bits.u(2, "reserved_zero_2bits")?;
            }
        }
        for (profile, level) in present {
            if profile {
                bits.skip(88, "sub_layer_profile_idc")?;
            }
            if level {
                bits.skip(8, "sub_layer_level_idc")?;
            }
        }
        Ok(())
    }
}
